from __future__ import annotations

import pytest

from proxy.vllm.doctor.sizes import GIB, MIB, gib, readable, size_in_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("20.00 MiB", 20 * MIB),
        ("1,024 KiB", MIB),
        ("1.5GB", GIB * 3 // 2),  # old torch and vLLM mean powers of two
        ("0 bytes", 0),
        ("20 apples", None),
        ("", None),
        (None, None),
    ],
)
def test_a_size_in_a_log_is_bytes(text: str | None, size: int | None) -> None:
    assert size_in_bytes(text) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (gib(1.74), "1.74 GiB"),
        (512 * MIB, "512 MiB"),
        (2048, "2 KiB"),
        (7, "7 bytes"),
        (None, "unknown"),
    ],
)
def test_a_size_is_said_in_the_unit_that_fits(size: int | None, text: str) -> None:
    assert readable(size) == text

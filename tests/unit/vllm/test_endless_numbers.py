from __future__ import annotations

import pytest

from proxy.vllm.endless_numbers import text_without_endless_numbers, without_endless_numbers


@pytest.mark.parametrize(
    ("line", "left"),
    [
        (b"", b""),
        (b"took 1.50 GiB of 123456789012345678", b"took 1.50 GiB of 123456789012345678"),
        (b"a1234567890123456789b", b"a123456789012345678b"),
        (b"9" * 100_000 + b".5 x " + b"1" * 40, b"9" * 18 + b".5 x " + b"1" * 18),
        (b"0,1,2,3\xff", b"0,1,2,3\xff"),
    ],
)
def test_a_number_keeps_its_first_digits(line: bytes, left: bytes) -> None:
    assert without_endless_numbers(line) == left
    assert text_without_endless_numbers(line.decode("latin-1")) == left.decode("latin-1")

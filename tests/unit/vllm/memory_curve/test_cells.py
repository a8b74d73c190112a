from __future__ import annotations

import pytest

from proxy.vllm.memory_curve.cells import MIB, moment_of, number_of, size_of, unit_named


@pytest.mark.parametrize(
    ("cell", "size"),
    [
        ("12345 MiB", 12345 * MIB),
        ("12345", 12345 * MIB),
        ("1.5 GiB", 1536 * MIB),
        ("0 MiB", 0),
        ("2048B", 2048),
        ("[N/A]", None),
        ("[Not Supported]", None),
        ("", None),
        ("-5 MiB", None),
        ("12345 Mi", None),
    ],
)
def test_a_size_is_read_with_its_unit_or_taken_in_the_columns(cell: str, size: int | None) -> None:
    assert size_of(cell, MIB) == size


def test_a_header_names_the_unit() -> None:
    assert (unit_named("MiB"), unit_named("%")) == (MIB, None)


@pytest.mark.parametrize(
    ("cell", "number"), [("87 %", 87.0), ("0", 0.0), ("[N/A]", None), ("nan", None), ("-1", None)]
)
def test_a_number_is_finite_and_not_below_0(cell: str, number: float | None) -> None:
    assert number_of(cell) == number


@pytest.mark.parametrize(
    "cell",
    [
        "2026/01/01 00:00:00.500",
        "2026-01-01T00:00:00.5Z",
        "2026-01-01 00:00:00,500",
        "1767225600.5",
        "1767225600500",
    ],
)
def test_a_moment_is_read_as_nvidia_smi_and_others_write_it(cell: str) -> None:
    assert moment_of(cell) == 1767225600.5


def test_the_form_of_ctime_is_a_moment_too() -> None:
    assert moment_of("Thu Jan  1 00:00:01 2026") == 1767225601.0


@pytest.mark.parametrize("cell", ["", "12345 MiB", "87", "now", "Foo Bar  1 00:00:01 2026"])
def test_anything_else_is_no_moment(cell: str) -> None:
    assert moment_of(cell) is None


def test_a_size_beyond_all_bounds_is_none() -> None:
    assert size_of("9" * 400, 1) is None

from __future__ import annotations

import pytest

from proxy.env_values.plain_numbers import content_length, is_read_as_more, plain_number

# What float() takes, and people, JSON, YAML and the shell do not.
ODD = [
    *("1_0", "0_1", "1_0.5", "1e1_0", "+5", "+.5", "nan", "NaN", " nan", "-nan", "inf", "-inf"),
    *("infinity", "1e400", "1e9999", "١٠", "１０", "٣.٥", "५", "5\u00a0", "\u20035", "5\x0b"),
]  # fmt: skip
PLAIN = {
    "0": 0.0, "10": 10.0, "-0": 0.0, "-1.5": -1.5, "05": 5.0, "0.25": 0.25, ".5": 0.5, "1.": 1.0,
    "1e3": 1000.0, "1E+06": 1e6, "1e-05": 1e-5, " 5": 5.0, "5\t\r\n": 5.0, "9" * 400: None,
}  # fmt: skip
NONE = ["", " ", "-", ".", "e3", "1e", "1e+", "5s", "1,5", "0x5", "--1", "5 5", "1__0", "_1", "٣s"]


@pytest.mark.parametrize("text", ODD)
def test_what_only_python_takes_for_a_number_is_none(text: str) -> None:
    assert plain_number(text) is None
    assert is_read_as_more(text)


@pytest.mark.parametrize("text", list(PLAIN))
def test_digits_a_point_and_an_exponent_are_a_number(text: str) -> None:
    assert plain_number(text) == PLAIN[text]
    assert is_read_as_more(text) is (PLAIN[text] is None)


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_number_for_anybody_is_left_to_others(text: str) -> None:
    assert plain_number(text) is None
    assert not is_read_as_more(text)


@pytest.mark.parametrize("digits", ["1" * 200_000, "." + "1" * 200_000, "1e" + "1" * 200_000])
def test_a_long_row_of_digits_costs_no_more_than_reading_it(digits: str) -> None:
    assert plain_number(digits + "x") is None


@pytest.mark.parametrize("zeros", [0, 1, 30, 5000])
def test_a_length_may_have_any_number_of_zeros_before_it(zeros: int) -> None:
    """int() takes no more than 4,300 digits."""
    assert content_length(b"0" * zeros + b"12") == 12
    assert content_length(b"0" * zeros + b"0") == 0


def test_a_length_that_no_parser_would_take_is_beyond_any_limit() -> None:
    assert content_length(b"9" * 5000) > 1 << 63

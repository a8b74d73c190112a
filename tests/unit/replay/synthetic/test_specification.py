"""What is written on the command line is read, or said to be wrong in one line."""

from __future__ import annotations

import pytest

from proxy.replay.synthetic.specification import (
    BadSpecificationError,
    duration_s,
    number,
    positive,
    split,
)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("1.5", 1.5), ("250ms", 0.25), ("90s", 90.0), ("2m", 120.0), ("2min", 120.0), ("1h", 3600.0)],
)
def test_a_duration_may_have_a_unit(written: str, seconds: float) -> None:
    assert duration_s(written, "it") == pytest.approx(seconds)


@pytest.mark.parametrize("written", ["", "x", "-1", "1d", "1 2", "1.2.3"])
def test_what_is_no_duration_is_refused(written: str) -> None:
    with pytest.raises(BadSpecificationError, match="it is"):
        duration_s(written, "it")


@pytest.mark.parametrize("written", ["nan", "inf", "x", "-0.1", "1_0", "١٠"])
def test_what_is_no_number_is_refused(written: str) -> None:
    with pytest.raises(BadSpecificationError):
        number(written, "it")


def test_a_rate_is_above_nought() -> None:
    with pytest.raises(BadSpecificationError, match="above 0"):
        positive("0", "the rate")


def test_a_specification_has_a_name_values_and_named_values() -> None:
    assert split("gamma: 20, cv=3") == ("gamma", ["20"], {"cv": "3"})

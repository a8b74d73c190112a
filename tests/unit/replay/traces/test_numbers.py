"""Numbers and times as the public traces write them."""

from __future__ import annotations

import pytest

from proxy.replay.traces.numbers import seconds, tokens, unix_seconds
from proxy.replay.traces.problem import BadLineError


@pytest.mark.parametrize(
    ("written", "unix_s"),
    [
        ("1970-01-01 00:00:10.5000001", 10.5000001),
        ("1970-01-01 00:00:10", 10.0),
        ("1970-01-01 00:00:10.009930+00:00", 10.00993),
        ("1970-01-01 00:00:10+00:00", 10.0),
        ("1970-01-01 02:00:10.25+02:00", 10.25),
    ],
)
def test_a_time_keeps_every_digit_and_heeds_its_offset(written: str, unix_s: float) -> None:
    assert unix_seconds(written, "TIMESTAMP") == pytest.approx(unix_s, abs=1e-9)


@pytest.mark.parametrize("written", ["", "soon", "1970-13-01 00:00:00", "5"])
def test_what_is_no_time_is_said_to_be_none(written: str) -> None:
    with pytest.raises(BadLineError, match=r"TIMESTAMP is .* no time"):
        unix_seconds(written, "TIMESTAMP")


@pytest.mark.parametrize("written", ["x", "", "-1", "1.5", "1e300", "nan", None, True])
def test_what_is_no_count_of_tokens_is_refused(written: object) -> None:
    with pytest.raises(BadLineError, match="tokens is"):
        tokens(written, "tokens")


def test_a_count_may_be_written_as_a_float() -> None:
    assert tokens("44.0", "tokens") == 44


@pytest.mark.parametrize("written", ["inf", "nan", "1e300", "-1e14", "x", None, False])
def test_what_is_no_number_of_seconds_is_refused(written: object) -> None:
    with pytest.raises(BadLineError):
        seconds(written, "t")

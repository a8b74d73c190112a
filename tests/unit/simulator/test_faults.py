from __future__ import annotations

import pytest

from proxy.simulator.faults import (
    Die,
    OutOfMemory,
    ResetStreams,
    Slow,
    Stall,
    TimedFault,
    parse_fault,
)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("stall", TimedFault(Stall())),
        ("stall:5@30", TimedFault(Stall(for_s=5.0), at_s=30.0)),
        ("die@60", TimedFault(Die(), at_s=60.0)),
        ("oom:4096", TimedFault(OutOfMemory(above_prefill_tokens=4096))),
        (" slow:2.5 ", TimedFault(Slow(factor=2.5))),
        ("reset:20@1.5", TimedFault(ResetStreams(after_tokens=20), at_s=1.5)),
    ],
)
def test_every_fault_has_a_written_form(text: str, fault: TimedFault) -> None:
    assert parse_fault(text) == fault


@pytest.mark.parametrize("text", ["", "explode", "die:5", "@30", "Stall"])
def test_an_unknown_fault_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match=r"none of stall, die, oom:TOKENS"):
        parse_fault(text)


@pytest.mark.parametrize(
    "text", ["oom", "slow:fast", "die@noon", "reset:", "stall:inf", "die@nan", "oom:1_0"]
)
def test_a_missing_number_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="needs a number"):
        parse_fault(text)


@pytest.mark.parametrize("text", ["slow:-1", "die@-0.1"])
def test_a_number_without_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="out of range"):
        parse_fault(text)

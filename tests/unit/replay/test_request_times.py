"""Times count from the arrival, and an objective asks only for what it names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.replay.outcome import Fate
from proxy.replay.request_times import (
    Objective,
    e2e_s,
    gaps_s,
    is_good,
    last_token_s,
    tpot_s,
    ttft_s,
)
from tests.support.replay_records import abandoned, completed, refused


def test_refused_tries_and_the_waits_between_them_are_part_of_the_first_token() -> None:
    first, answered = refused(1.0), completed(4.0, ttft_s=0.5)
    record = replace(answered, arrived_s=1.0, tries=(*first.tries, *answered.tries))
    assert ttft_s(record) == pytest.approx(3.5)
    assert e2e_s(record) == pytest.approx(3.9)


def test_time_per_token_leaves_the_first_token_out() -> None:
    assert tpot_s(completed(0.0, tokens=5, gap_s=0.1)) == pytest.approx(0.1)


def test_a_chunk_may_hold_several_tokens() -> None:
    record = replace(completed(0.0, tokens=5, gap_s=0.1), output_tokens=9)
    assert tpot_s(record) == pytest.approx(0.05)
    assert list(gaps_s(record)) == pytest.approx([0.1] * 4)


def test_time_per_token_of_several_sequences_is_that_of_one_of_them() -> None:
    record = replace(completed(0.0, tokens=5, gap_s=0.1), output_tokens=20, sequences=4)
    assert tpot_s(record) == pytest.approx(0.1)


def test_without_times_of_its_own_an_answer_came_at_its_end() -> None:
    record = replace(completed(0.0, ttft_s=0.5, tokens=5, gap_s=0.1), token_times=None)
    assert last_token_s(record) == record.ended_s
    assert list(gaps_s(record)) == []


@pytest.mark.parametrize("record", [refused(0.0), abandoned(0.0)])
def test_what_had_no_token_has_no_time_to_it(record: object) -> None:
    assert ttft_s(record) is None  # type: ignore[arg-type]
    assert tpot_s(record) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("objective", "good"),
    [
        (Objective(), True),
        (Objective(ttft_s=0.5, tpot_s=0.11, e2e_s=0.91), True),
        (Objective(ttft_s=0.49), False),
        (Objective(tpot_s=0.09), False),
        (Objective(e2e_s=0.89), False),
    ],
)
def test_every_part_of_an_objective_must_be_met(objective: Objective, good: bool) -> None:
    assert is_good(completed(0.0, ttft_s=0.5, tokens=5, gap_s=0.1), objective) is good


def test_an_answer_of_one_token_cannot_be_slow_per_token() -> None:
    assert is_good(completed(0.0, tokens=1), Objective(tpot_s=0.001))


def test_an_answer_whose_first_token_was_not_seen_misses_an_objective_for_it() -> None:
    assert not is_good(replace(completed(0.0), first_token_s=None), Objective(ttft_s=9.0))


@pytest.mark.parametrize("fate", [fate for fate in Fate if fate is not Fate.COMPLETED])
def test_only_a_whole_answer_is_good(fate: Fate) -> None:
    assert not is_good(replace(completed(0.0), fate=fate), Objective())

"""A load is cut to size without losing its shape, and its hash tells it from others."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from proxy.replay.arrival import Arrival
from proxy.replay.schedule import (
    LengthLimits,
    Schedule,
    clamped,
    limited,
    made_up,
    played,
    with_sequences,
)
from proxy.replay.synthetic.arrival_process import parse_arrivals
from proxy.replay.synthetic.specification import BadSpecificationError


def _arrivals(*times_s: float) -> list[Arrival]:
    return [Arrival(at_s, 100, 10, (1, 2)) for at_s in times_s]


def test_speed_divides_times_and_the_duration_cuts() -> None:
    schedule = played(_arrivals(0, 10, 20, 30), speed=10, duration_s=2.5)
    assert [a.at_s for a in schedule.arrivals] == [0, 1, 2]
    assert schedule.duration_s == 2.5


def test_a_trace_lasts_one_gap_longer_than_its_last_request() -> None:
    assert played(_arrivals(0, 1, 2), speed=1, duration_s=None).duration_s == pytest.approx(3)


def test_a_limit_of_the_rate_keeps_bursts() -> None:
    bursts = [Arrival(second + i / 1000, 1, 1) for second in range(0, 100, 10) for i in range(100)]
    thin = limited(Schedule(tuple(bursts), 100.0), 2.0, random.Random(1))
    assert len(thin.arrivals) == pytest.approx(200, rel=0.2)
    assert {int(a.at_s) for a in thin.arrivals} == set(range(0, 100, 10))
    assert thin.notes == ("thinned from 10 to 2 requests a second",)


def test_a_load_below_the_limit_stays_as_it_is() -> None:
    schedule = Schedule(tuple(_arrivals(0, 1)), 2.0)
    assert limited(schedule, 1.0, random.Random(1)) is schedule


def test_lengths_are_cut_and_the_cut_is_counted() -> None:
    schedule = Schedule((Arrival(0, 5000, 0), Arrival(1, 10, 90)), 2.0)
    cut = clamped(schedule, LengthLimits(prompt=1000, output=50, model_len=512))
    assert [(a.prompt_tokens, a.output_tokens) for a in cut.arrivals] == [(511, 1), (10, 50)]
    assert cut.notes == ("2 of 2 requests were cut to the limits of length",)


def test_equal_loads_have_equal_hashes_and_any_change_another() -> None:
    schedule = Schedule(tuple(_arrivals(0, 1)), 2.0, 512)
    changed = [
        Schedule(tuple(_arrivals(0, 1.5)), 2.0, 512),
        Schedule((Arrival(0, 100, 11, (1, 2)), *_arrivals(1)), 2.0, 512),
        Schedule((Arrival(0, 100, 10, (1, 3)), *_arrivals(1)), 2.0, 512),
        Schedule((Arrival(0, 100, 10, (1, 2), sequences=2), *_arrivals(1)), 2.0, 512),
        replace(schedule, block_tokens=16),
        replace(schedule, duration_s=3.0),
    ]
    hashes = {each.hash_with("chat") for each in (schedule, *changed)} | {schedule.hash_with("x")}
    assert len(hashes) == len(changed) + 2
    assert schedule.hash_with("chat") == replace(schedule, notes=("x",)).hash_with("chat")


def test_a_load_without_wide_requests_has_the_hash_that_it_had_before_there_were_any() -> None:
    assert Schedule((Arrival(0.5, 100, 10),), 2.0).hash_with("chat") == "f9fec5c2c3c8f65e"


def test_every_request_can_be_made_to_ask_for_several_sequences() -> None:
    wide = with_sequences(Schedule(tuple(_arrivals(0, 1)), 2.0, notes=("x",)), 3)
    assert [a.sequences for a in wide.arrivals] == [3, 3]
    assert wide.notes == ("x",)


def test_more_requests_than_can_be_held_are_refused_before_they_are_made_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxy.replay.schedule.MOST_ARRIVALS", 100)
    process = parse_arrivals("constant:100")
    assert len(made_up(process, lambda _: (1, 1), 1, random.Random(0)).arrivals) == 100
    with pytest.raises(BadSpecificationError, match="more than 100 requests would arrive in 1e"):
        made_up(process, lambda _: (1, 1), 1e9, random.Random(0))


def test_a_made_up_load_hangs_on_its_seed_alone() -> None:
    def hash_of(seed: int) -> str:
        process, rng = parse_arrivals("poisson:10"), random.Random(seed)
        return made_up(process, lambda r: (r.randint(1, 9), 1), 10, rng).hash_with()

    assert hash_of(1) == hash_of(1) != hash_of(2)

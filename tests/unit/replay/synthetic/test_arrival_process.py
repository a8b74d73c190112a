"""Arrivals come at the rate and with the shape that is asked for."""

from __future__ import annotations

import random
from itertools import pairwise
from statistics import mean, pstdev

import pytest

from proxy.replay.synthetic.arrival_process import parse_arrivals
from proxy.replay.synthetic.specification import BadSpecificationError


def _times(written: str, duration_s: float = 1000.0) -> list[float]:
    return list(parse_arrivals(written).times_s(duration_s, random.Random(1)))


def _variation(times: list[float]) -> float:
    gaps = [after - before for before, after in pairwise(times)]
    return pstdev(gaps) / mean(gaps)


@pytest.mark.parametrize(
    ("written", "variation"), [("poisson:20", 1.0), ("constant:20", 0.0), ("gamma:20,cv=3", 3.0)]
)
def test_rate_and_burstiness_are_as_written(written: str, variation: float) -> None:
    times = _times(written)
    assert len(times) == pytest.approx(20_000, rel=0.06)
    assert _variation(times) == pytest.approx(variation, rel=0.1, abs=0.001)
    assert times == sorted(times)
    assert times[0] >= 0
    assert times[-1] < 1000


@pytest.mark.parametrize("written", ["ramp:5-50", "ramp:50-5"])
def test_a_ramp_goes_evenly_from_one_rate_to_the_other(written: str) -> None:
    times = _times(written)
    low, high = (sum(lo <= t < lo + 100 for t in times) / 100 for lo in (0, 900))
    low, high = sorted((low, high))
    assert low == pytest.approx(5 + 45 * 0.05, rel=0.15)
    assert high == pytest.approx(5 + 45 * 0.95, rel=0.05)


def test_steps_follow_each_other_over_and_over_and_may_be_empty() -> None:
    times = _times("step:10@10s,0@5s", 30)
    assert {int(t // 5) for t in times} == {0, 1, 3, 4}


@pytest.mark.parametrize(
    "written",
    [
        "",
        "poisson",
        "poisson:x",
        "poisson:0",
        "gamma:5",
        "waves:3",
        "step:5",
        "step:0@5s",
        "ramp:5",
    ],
)
def test_what_is_no_arrival_process_is_refused(written: str) -> None:
    with pytest.raises(BadSpecificationError):
        parse_arrivals(written)

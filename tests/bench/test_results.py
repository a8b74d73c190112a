from __future__ import annotations

import pytest

from tests.bench.arithmetic import Spread
from tests.bench.contenders import DIRECT, SLUICE, VLLM_ROUTER
from tests.bench.figure import Column
from tests.bench.results import Results

RATE = Column("rate", "requests/s")
ADDED = Column("latency", "added, ms", minus_direct=True)


@pytest.fixture
def results() -> Results:
    filled = Results()
    for number, (mine, theirs, direct) in enumerate([(3.0, 2.0, 1.0), (9.0, 3.0, 1.5)], start=1):
        filled.add(SLUICE, number, {"rate": mine, "latency": mine})
        filled.add(VLLM_ROUTER, number, {"rate": theirs, "latency": theirs})
        filled.add(DIRECT, number, {"latency": direct})
    return filled


def test_a_column_shows_what_was_measured(results: Results) -> None:
    assert results.spread(RATE, SLUICE) == Spread(6.0, 3.0, 9.0)


def test_a_ratio_is_to_the_other_in_the_same_round(results: Results) -> None:
    assert results.ratio(RATE, SLUICE) == Spread(2.25, 1.5, 3.0)


def test_what_a_contender_adds_is_less_the_direct_way(results: Results) -> None:
    assert results.by_round(ADDED, SLUICE) == {1: 2.0, 2: 7.5}
    assert results.ratio(ADDED, SLUICE) == Spread(3.5, 2.0, 5.0)


def test_the_direct_way_is_shown_itself(results: Results) -> None:
    assert results.by_round(ADDED, DIRECT) == {1: 1.0, 2: 1.5}


def test_without_the_direct_way_nothing_is_known_to_be_added() -> None:
    results = Results()
    results.add(SLUICE, 1, {"latency": 3.0})
    assert results.spread(ADDED, SLUICE) is None


def test_a_failure_keeps_its_reason_and_is_no_number() -> None:
    results = Results()
    results.failed("requests", SLUICE, "did not start")
    assert results.why_not("requests", SLUICE) == "did not start"
    assert results.why_not("streams", SLUICE) is None
    assert results.spread(RATE, SLUICE) is None

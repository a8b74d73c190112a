from __future__ import annotations

import pytest

from tests.bench.goals import Verdict
from tests.bench.report import Setting
from tests.bench.storm.clients import ONCE, SDK
from tests.bench.storm.engines import Kind
from tests.bench.storm.goals import GOALS, judge
from tests.bench.storm.page import page
from tests.bench.storm.results import Results
from tests.bench.storm.rows import HAPROXY_WAY, SLUICE, Row

MINE, THEIRS = Row(SDK, 3.0, SLUICE), Row(SDK, 3.0, HAPROXY_WAY)
FINE = {
    "ratio": 0.98,
    "tries": 1.05,
    "first_byte_added_s": 4.0,
    "own_first_byte_added_s": 3.0,
    "refusal_ms": 2.0,
    "waiting": 0.0,
    "unread": 0.0,
    "normal_after_s": 2.0,
    "offered_per_s": 25.0,
}
SETTING = Setting("today", "two cores", "0.00", 2, 40.0, {"vLLM": "0.32.0"})


@pytest.fixture
def results() -> Results:
    filled = Results()
    filled.references += [8.0, 9.0]
    for number in (1, 2, 3):
        filled.add(MINE, number, FINE)
        filled.add(THEIRS, number, {"ratio": 0.97, "tries": 2.5})
    return filled


def test_goals_are_judged_by_the_median_of_the_rounds(results: Results) -> None:
    results.add(MINE, 2, {"refusal_ms": 90.0})
    assert {one.verdict for one in judge(results, (3.0,))} == {Verdict.REACHED}
    results.add(MINE, 3, {"refusal_ms": 90.0})
    missed = [one for one in judge(results, (3.0,)) if one.verdict is Verdict.MISSED]
    assert [one.goal.key for one in missed] == ["refusal_ms"]


def test_haproxy_is_compared_with_inside_each_round(results: Results) -> None:
    results.add(THEIRS, 1, {"ratio": 0.5})
    results.add(MINE, 1, {"ratio": 0.49})
    results.add(THEIRS, 2, {"ratio": 0.99})
    (to_haproxy,) = [one for one in judge(results, (3.0,)) if one.goal.to == HAPROXY_WAY.name]
    assert to_haproxy.measured is not None
    assert to_haproxy.measured.median == 0.98 / 0.99
    assert to_haproxy.verdict is Verdict.MISSED


def test_what_was_not_measured_is_not_reached() -> None:
    assert [one.verdict for one in judge(Results(), (3.0,))] == [Verdict.NOT_MEASURED] * len(GOALS)


def test_a_machine_that_was_not_quiet_is_told_of(results: Results) -> None:
    results.add(MINE, 1, {"engine_noise": 0.04, "noise": 0.0})
    assert "not quiet" not in page({Kind.SIM: results}, (3.0,), SETTING)
    results.add(MINE, 2, {"engine_noise": 0.06, "noise": 0.0})
    assert "not quiet" in page({Kind.SIM: results}, (3.0,), SETTING)


def test_the_page_has_every_row_and_says_what_is_missing(results: Results) -> None:
    results.failed(Row(ONCE, 3.0, SLUICE), 3, "did not start")
    text = page({Kind.VLLM: results}, (3.0,), SETTING)
    assert "| Sluice | 3 x | - | 0.980 | 1.05 |" in text
    assert "Closed loop of 7 clients: 8.50 (8.00 to 9.00) answers/s" in text
    assert "Every goal is reached." in text
    assert "Sluice, 3 x, never retry: not measured in at least one round: did not start." in text
    assert text.endswith(".\n")

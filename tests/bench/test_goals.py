from __future__ import annotations

import pytest

from tests.bench.__main__ import FIGURES
from tests.bench.arithmetic import Spread
from tests.bench.goals import GOALS, Goal, Verdict, goals_of

AT_LEAST = Goal("rate", "rate", at_least=1.2, to="vllm-router")
AT_MOST = Goal("stall", "stall", at_most=5, unit="ms")


@pytest.mark.parametrize(
    ("goal", "median", "verdict"),
    [
        (AT_LEAST, 1.2, Verdict.REACHED),
        (AT_LEAST, 1.19, Verdict.MISSED),
        (AT_MOST, 5.0, Verdict.REACHED),
        (AT_MOST, 5.01, Verdict.MISSED),
    ],
)
def test_the_middle_round_is_judged(goal: Goal, median: float, verdict: Verdict) -> None:
    assert goal.judge(Spread(median, least=0.0, most=100.0)) is verdict


def test_what_was_not_measured_is_neither_reached_nor_missed() -> None:
    assert AT_MOST.judge(None) is Verdict.NOT_MEASURED


def test_a_goal_says_what_is_wanted() -> None:
    assert AT_LEAST.wanted == "at least 1.2 x vllm-router"
    assert AT_MOST.wanted == "at most 5 ms"


def test_every_goal_has_its_column_and_one_bound() -> None:
    assert goals_of(FIGURES)[0] == list(GOALS)
    assert [goal for goal in GOALS if (goal.at_least is None) == (goal.at_most is None)] == []


def test_no_two_figures_share_a_column_or_a_name() -> None:
    keys = [column.key for figure in FIGURES for column in figure.columns]
    assert len(keys) == len(set(keys))
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)

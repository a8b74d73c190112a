"""What Sluice is to reach in a storm, and whether it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.arithmetic import Spread, ratios
from tests.bench.goals import Goal
from tests.bench.storm.clients import SDK
from tests.bench.storm.rows import HAPROXY_WAY, LIMITS, SLUICE, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.goals import Verdict
    from tests.bench.storm.results import Results

GOALS = (
    Goal("good/s", "ratio", at_least=0.97, to="the closed loop"),
    Goal("good/s", "ratio", at_least=1.0, to=HAPROXY_WAY.name),
    Goal("tries per request", "tries", at_most=1.1),
    *(
        Goal(
            f"p99 to first byte {since}, above the closed loop's",
            key,
            at_most=LIMITS.queue_timeout_s,
            unit="s",
        )
        for since, key in (
            ("from the try that was answered", "own_first_byte_added_s"),
            ("from the first try", "first_byte_added_s"),
        )
    ),
    Goal("p99 of refusals", "refusal_ms", at_most=3, unit="ms"),
    Goal("most that waited in the engine", "waiting", at_most=0),
    Goal("answers that nobody read", "unread", at_most=0),
    Goal("normal after", "normal_after_s", at_most=5, unit="s"),
)


@dataclass(frozen=True)
class Judged:
    times: float
    goal: Goal
    measured: Spread | None
    verdict: Verdict


def judge(results: Results, times: Sequence[float]) -> list[Judged]:
    """Every goal at every rate, by the median of the rounds, for clients as the OpenAI SDK."""
    return [_judge(results, one, goal) for one in times for goal in GOALS]


def _judge(results: Results, times: float, goal: Goal) -> Judged:
    mine = results.by_round(Row(SDK, times, SLUICE), goal.key)
    if goal.to == HAPROXY_WAY.name:
        theirs = results.by_round(Row(SDK, times, HAPROXY_WAY), goal.key)
        measured = Spread.of(ratios(mine, theirs), results.rounds)
    else:
        measured = Spread.of(list(mine.values()), results.rounds)
    return Judged(times, goal, measured, goal.judge(measured))

"""What Sluice is to reach, and whether it did."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.contenders import FASTAPI, VLLM_ROUTER
from tests.bench.figures.bodies import SIZES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.bench.arithmetic import Spread
    from tests.bench.figure import Column, Figure
    from tests.bench.results import Results


class Verdict(enum.StrEnum):
    REACHED = "reached"
    MISSED = "MISSED"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Goal:
    """`key` is a column's. With `to`, the bound is for the ratio to that contender.

    It is judged by the median: a goal is reached when the middle round reaches it.
    """

    text: str
    key: str
    at_least: float | None = None
    at_most: float | None = None
    to: str | None = None
    unit: str = ""

    @property
    def wanted(self) -> str:
        bound = f"at least {self.at_least:,g}" if self.at_least else f"at most {self.at_most:,g}"
        return f"{bound} x {self.to}" if self.to else f"{bound} {self.unit}".strip()

    def judge(self, measured: Spread | None) -> Verdict:
        if measured is None:
            return Verdict.NOT_MEASURED
        is_low = self.at_least is not None and measured.median < self.at_least
        is_high = self.at_most is not None and measured.median > self.at_most
        return Verdict.MISSED if is_low or is_high else Verdict.REACHED

    def measure(
        self, results: Results, columns: dict[str, Column], contender: str
    ) -> Spread | None:
        column = columns[self.key]
        if self.to is None:
            return results.spread(column, contender)
        return results.ratio(column, contender, self.to)


GOALS = (
    Goal("requests/s on one core", "requests_per_s", at_least=1.2, to=VLLM_ROUTER),
    Goal("requests/s on one core", "requests_per_s", at_least=40, to=FASTAPI),
    Goal("CPU per request", "cpu_us_per_request", at_most=0.85, to=VLLM_ROUTER),
    Goal("CPU per streamed event", "cpu_us_per_event", at_most=1.0, to=VLLM_ROUTER),
    Goal("added p50 latency", "latency_p50_ms", at_most=0.9, to=VLLM_ROUTER),
    Goal("added p99 latency", "latency_p99_ms", at_most=0.9, to=VLLM_ROUTER),
    Goal("added p99 gap between events", "gap_p99_ms", at_most=5, unit="ms"),
    Goal("refusals on one core", "sheds_per_s", at_least=20_000, unit="/s"),
    Goal("goodput under 10 x the capacity", "goodput_ratio", at_least=0.97, unit="of that without"),
    Goal("memory per idle stream", "memory_kib_per_stream", at_most=20, unit="KiB"),
    Goal("core decision, 10 waiting", "decision_few_us", at_most=5, unit="us"),
    Goal("core decision, 100,000 waiting", "decision_many_us", at_most=5, unit="us"),
    Goal("core decision, from 10 to 100,000", "decision_growth", at_most=1.5, unit="x"),
    *(
        Goal(f"stall under bodies of {size}", f"stall_ms {size}", at_most=5, unit="ms")
        for size in SIZES
    ),
    *(
        Goal(f"bodies of {size}, MB/s", f"mb_per_s {size}", at_least=0.5, to=VLLM_ROUTER)
        for size in SIZES
    ),
)


def goals_of(figures: Iterable[Figure]) -> tuple[list[Goal], dict[str, Column]]:
    """The goals that these figures have columns for, and those columns by key."""
    columns = {column.key: column for figure in figures for column in figure.columns}
    return [goal for goal in GOALS if goal.key in columns], columns

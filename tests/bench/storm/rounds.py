"""One round on one engine: every row once, each between two closed loops."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from tests.bench.processes import NotMeasuredError
from tests.bench.storm.closed_loop import closed_loop
from tests.bench.storm.engine_watch import until_idle
from tests.bench.storm.engines import running_engine, until_engine_ready
from tests.bench.storm.measure import IDLE_WITHIN_S, Place, measure
from tests.bench.storm.rows import LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from tests.bench.peers import Peers
    from tests.bench.storm.closed_loop import Reference
    from tests.bench.storm.engines import Engine, Kind
    from tests.bench.storm.measure import Storm
    from tests.bench.storm.results import Results
    from tests.bench.storm.rows import Row

# Of a storm's length: enough answers that one more or less is a hundredth.
_LOOP_SHARE, _LEAST_LOOP_S = 0.3, 8.0
# What a measurement may take beside the storm itself: to start, to come to rest, twice to be idle.
_LONGEST_BESIDE_S = 240.0


@dataclass(frozen=True)
class Plan:
    rows: Sequence[Row]
    seconds: float

    def by_engine(self, number: int) -> Iterator[tuple[int | None, list[Row]]]:
        """The rows for each flag that an engine is started with; every other round backwards."""
        order = self.rows if number % 2 else self.rows[::-1]
        ordered = sorted(order, key=lambda row: row.way.max_num_queued_reqs or 0)
        for flag, group in groupby(ordered, key=lambda row: row.way.max_num_queued_reqs):
            yield flag, list(group)


@dataclass(frozen=True)
class Rounds:
    kind: Kind
    peers: Peers
    engine_core: int
    other_core: int
    scratch: Path
    results: Results

    async def run(self, plan: Plan, number: int) -> None:
        for flag, listed in plan.by_engine(number):
            try:
                with running_engine(self.kind, self.engine_core, self.scratch, flag) as engine:
                    await until_engine_ready(engine, self.scratch)
                    await self._measure_all(engine, listed, plan.seconds, number)
            except NotMeasuredError as why:
                _say(f"{number} {self.kind}: the engine gave up: {why}")
                for row in listed:
                    if number not in self.results.by_round(row, "ratio"):
                        self.results.failed(row, number, f"{why}")

    async def _measure_all(
        self, engine: Engine, listed: Iterable[Row], seconds: float, number: int
    ) -> None:
        """Raises NotMeasuredError when the engine itself is at fault."""
        place = Place(engine, self.peers, self.other_core, self.scratch)
        before = await self._loop(engine, seconds)
        for row in listed:
            try:
                async with asyncio.timeout(seconds + _LONGEST_BESIDE_S):
                    per_s = row.times * before.per_s
                    storm = await measure(place, row, per_s, seconds, seed=number)
            # A proxy that falls over under load may do so in any way, and must not end the run.
            except (NotMeasuredError, OSError) as why:
                told = f"{why}" or type(why).__name__
                self.results.failed(row, number, told)
                _say(f"{number} {self.kind}: {row.name}: not measured: {told}")
                before = await self._loop(engine, seconds)
                continue
            after = await self._loop(engine, seconds)
            measured = _compared(storm, before, after)
            self.results.add(row, number, measured)
            self.results.references.append(after.per_s)
            _say_measured(f"{number} {self.kind}: {row.name}", measured, storm)
            before = after

    @staticmethod
    async def _loop(engine: Engine, seconds: float) -> Reference:
        await until_idle(engine.port, IDLE_WITHIN_S)
        return await closed_loop(
            engine.port, LIMITS.in_flight, max(seconds * _LOOP_SHARE, _LEAST_LOOP_S)
        )


def _compared(storm: Storm, before: Reference, after: Reference) -> dict[str, float]:
    measured = storm.columns()
    measured["reference_per_s"] = (before.per_s + after.per_s) / 2
    measured["ratio"] = storm.good_per_s / measured["reference_per_s"]
    unloaded_s = (before.first_byte_s + after.first_byte_s) / 2
    for key, added_key in (
        ("first_byte_s", "first_byte_added_s"),
        ("own_first_byte_s", "own_first_byte_added_s"),
    ):
        if key in measured:
            measured[added_key] = measured[key] - unloaded_s
    return measured


def _say_measured(what: str, measured: dict[str, float], storm: Storm) -> None:
    shown = ", ".join(f"{key} {value:,.4g}" for key, value in measured.items())
    ends = ", ".join(f"{end} {count}" for end, count in storm.tally.ends.most_common())
    left = f"; {storm.left} still waited at the end" if storm.left else ""
    _say(f"{what}: {shown}; tries ended {ends}{left}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

"""Two runs of one load side by side: what differs, and by more than noise.

Each figure has a 95 % interval for either run and for the change from A to B (block_bootstrap.py).
A change counts when its interval leaves out zero and it is at least 1 %, or of a share half a
point: histograms cannot tell less. What differs from one run to the next for other reasons than the
load's course, such as a warm cache, is in no interval: for that, runs are repeated.
"""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from proxy.replay.block_bootstrap import FEWEST_BLOCKS, Interval, blocks_for, draws, interval
from proxy.replay.evidence import METRICS, Better, Evidence, Metric, Unit, measured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy.replay.block_bootstrap import Blocks
    from proxy.replay.result import ReplayResult


_LEAST_CHANGE = 0.01
_LEAST_SHARE = 0.005


class Judgement(enum.StrEnum):
    """Of B against A. NOISE: no change that counts; UNKNOWN: one of the runs has no such figure."""

    BETTER = "better"
    WORSE = "worse"
    NOISE = "within noise"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Estimate:
    value: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Row:
    """`change` is relative, (B - A) / A, but of shares the difference."""

    metric: Metric
    a: Estimate
    b: Estimate
    change: Estimate
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Comparison:
    """Requests arrived in `busy_blocks` of the blocks, in the run that has fewer of these. `late_s`
    is how late the load generator was, by the name of the run, where it was too late."""

    rows: Mapping[str, Row]
    blocks: Blocks
    busy_blocks: int
    late_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_too_short(self) -> bool:
        """The intervals are too narrow, so that what counts by them may be chance."""
        return not self.blocks.long_enough or self.busy_blocks < FEWEST_BLOCKS

    def judged(self, name: str) -> Judgement:
        return self.rows[name].judgement

    def change(self, name: str) -> float:
        """0 where it is unknown."""
        return self.rows[name].change.value or 0.0


def load_differences(a: ReplayResult, b: ReplayResult) -> list[str]:
    """Why these two are not runs of one load, a line each; empty when they are."""
    differences = [
        f"{name} was broken off after {run.run.elapsed_s:.0f} s; the rest did not happen"
        for name, run in (("A", a), ("B", b))
        if run.run.partial
    ]
    if a.load_hash != b.load_hash:
        parts = _different_parts(a.load, b.load, "")
        differences += parts or ["the hashes of the loads differ, though all that is listed agrees"]
    if a.objective != b.objective:
        mine, other = map(msgspec.to_builtins, (a.objective, b.objective))
        differences += _different_parts(mine, other, "objective.")
    return differences


def _different_parts(a: Mapping[str, object], b: Mapping[str, object], under: str) -> list[str]:
    found: list[str] = []
    for name in (*a, *(name for name in b if name not in a)):
        mine, other = a.get(name), b.get(name)
        if name == "hash" or mine == other:
            continue
        if isinstance(mine, dict) and isinstance(other, dict):
            found += _different_parts(mine, other, f"{under}{name}.")
        else:
            found.append(f"{under}{name}: {_written(mine)} in A, {_written(other)} in B")
    return found


def _written(value: object) -> str:
    """What a file says may be long, or hold what a terminal would obey."""
    text = "unset" if value is None else str(value)
    return "".join(c if c.isprintable() else "?" for c in text[:60])


def compare_runs(a: ReplayResult, b: ReplayResult, seed: int) -> Comparison:
    """Both of one load: see `load_differences`. `seed` is for the draws."""
    in_system_s = max(a.e2e_s.p50 or 0.0, b.e2e_s.p50 or 0.0)
    blocks = blocks_for(max(a.duration_s, b.duration_s), in_system_s)
    evidence = Evidence(a, blocks), Evidence(b, blocks)
    drawn = draws(blocks, random.Random(seed))
    resampled = [[one.figures(weights) for weights in drawn] for one in evidence]
    columns = zip(*(list(zip(*figures, strict=True)) for figures in resampled), strict=True)
    values = zip(measured(a), measured(b), strict=True)
    rows = [
        _row(metric, *pair, *column)
        for metric, pair, column in zip(METRICS, values, columns, strict=True)
    ]
    return Comparison(
        rows={row.metric.name: row for row in rows},
        blocks=blocks,
        busy_blocks=min(one.busy_blocks for one in evidence),
        late_s={name: run.run.late_s for name, run in (("A", a), ("B", b)) if run.run.is_late},
    )


def _row(
    metric: Metric,
    a: float | None,
    b: float | None,
    resampled_a: Sequence[float | None],
    resampled_b: Sequence[float | None],
) -> Row:
    changes = [_change(metric, x, y) for x, y in zip(resampled_a, resampled_b, strict=True)]
    change = Estimate(_change(metric, a, b), interval(changes))
    return Row(
        metric,
        Estimate(a, interval(resampled_a)),
        Estimate(b, interval(resampled_b)),
        change,
        _judgement(metric, change),
    )


def _change(metric: Metric, a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return None
    if metric.unit is Unit.SHARE:
        return b - a
    if a == b:
        return 0.0
    return (b - a) / a if a else None


def _judgement(metric: Metric, change: Estimate) -> Judgement:
    if change.value is None or change.interval is None:
        return Judgement.UNKNOWN
    least = _LEAST_SHARE if metric.unit is Unit.SHARE else _LEAST_CHANGE
    if change.interval.low <= 0 <= change.interval.high or abs(change.value) < least:
        return Judgement.NOISE
    rose = change.interval.low > 0
    return Judgement.BETTER if rose == (metric.better is Better.HIGHER) else Judgement.WORSE

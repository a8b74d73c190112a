"""One run cut into blocks, from which any draw of blocks gives all compared figures anew."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from proxy.replay.block_bootstrap import BlockValues, buckets_by_block, resampled_sum
from proxy.replay.outcome import Fate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.replay.block_bootstrap import Blocks
    from proxy.replay.result import ReplayResult


class Better(enum.Enum):
    HIGHER = enum.auto()
    LOWER = enum.auto()


class Unit(enum.Enum):
    """How a figure is written; a change of a share is a difference, of the others a ratio."""

    REQUESTS_PER_S = "requests/s"
    TOKENS_PER_S = "tokens/s"
    SECONDS = "s"
    SHARE = "share"
    RATIO = "ratio"


@dataclass(frozen=True, slots=True)
class Metric:
    """`name` as in the result, with the percentile for times: `ttft_s.p95`."""

    name: str
    label: str
    unit: Unit
    better: Better


GOODPUT, THROUGHPUT = "goodput_per_s", "throughput_tokens_per_s"
_SUMS = ("offered", "good", "output_tokens", "tries", *map(str, Fate))
_PERCENTILES = {
    "ttft_s": (50, 95, 99),
    "tpot_s": (50, 95),
    "itl_s": (50, 99),
    "e2e_s": (50, 95, 99),
}
_TIME_LABELS = {
    "ttft_s": "first token",
    "tpot_s": "per token",
    "itl_s": "between tokens",
    "e2e_s": "whole request",
}
METRICS: tuple[Metric, ...] = (
    Metric(GOODPUT, "goodput", Unit.REQUESTS_PER_S, Better.HIGHER),
    Metric(THROUGHPUT, "throughput", Unit.TOKENS_PER_S, Better.HIGHER),
    Metric("completed", "completed", Unit.SHARE, Better.HIGHER),
    Metric("shed", "shed for good", Unit.SHARE, Better.LOWER),
    Metric("failed", "failed", Unit.SHARE, Better.LOWER),
    Metric("abandoned", "abandoned", Unit.SHARE, Better.LOWER),
    Metric("amplification", "tries per request", Unit.RATIO, Better.LOWER),
    *(
        Metric(f"{name}.p{p}", f"{label} p{p}", Unit.SECONDS, Better.LOWER)
        for name, label in _TIME_LABELS.items()
        for p in _PERCENTILES[name]
    ),
)


def measured(result: ReplayResult) -> list[float | None]:
    """The figures of `METRICS` as the run had them."""
    return [_measured(result, metric) for metric in METRICS]


def _measured(result: ReplayResult, metric: Metric) -> float | None:
    value: float | None = attrgetter(metric.name)(result)
    if metric.unit is not Unit.SHARE or value is None:
        return value
    return value / result.offered if result.offered else None


class Evidence:
    """A run's values by block; `figures` computes `METRICS` for how often each block was drawn."""

    __slots__ = ("_duration_s", "_lasted_s", "_sums", "_times")

    def __init__(self, result: ReplayResult, blocks: Blocks) -> None:
        self._duration_s = result.duration_s
        self._lasted_s = result.lasted_s
        self._sums = _sums_by_block(result, blocks)
        requests = result.requests
        self._times = {
            "ttft_s": _values(result, requests.ttft_s, blocks),
            "tpot_s": _values(result, requests.tpot_s, blocks),
            "itl_s": _gap_values(result, blocks),
            "e2e_s": _values(result, requests.e2e_s, blocks),
        }

    @property
    def busy_blocks(self) -> int:
        """In which requests arrived."""
        return sum(map(bool, self._sums["offered"]))

    def figures(self, weights: Sequence[int]) -> list[float | None]:
        """In the order of `METRICS`."""
        sums = {name: resampled_sum(self._sums[name], weights) for name in _SUMS}
        offered = sums["offered"] or None
        shares = [sums[fate] / offered if offered else None for fate in _SHARES]
        amplification = sums["tries"] / offered if offered else None
        figures: list[float | None] = [
            sums["good"] / self._duration_s,
            sums["output_tokens"] / self._lasted_s,
            *shares,
            amplification,
        ]
        for name, values in self._times.items():
            figures += values.resampled_percentiles(weights, [p / 100 for p in _PERCENTILES[name]])
        return figures


_SHARES = ("completed", "shed", "failed", "abandoned")


def _sums_by_block(result: ReplayResult, blocks: Blocks) -> dict[str, list[float]]:
    requests = result.requests
    sums = {name: [0.0] * blocks.count for name in _SUMS}
    columns = zip(
        requests.arrived_s,
        requests.good,
        requests.output_tokens,
        requests.tries,
        requests.fate,
        strict=True,
    )
    for arrived_s, good, tokens, tries, fate in columns:
        block = blocks.of(arrived_s)
        sums["offered"][block] += 1
        sums["good"][block] += good
        sums["output_tokens"][block] += tokens
        sums["tries"][block] += tries
        sums[fate][block] += 1
    return sums


def _values(result: ReplayResult, column: Iterable[float | None], blocks: Blocks) -> BlockValues:
    """Of completed requests, as the percentiles of the result are."""
    requests = result.requests
    known = (
        (arrived_s, value)
        for arrived_s, fate, value in zip(requests.arrived_s, requests.fate, column, strict=True)
        if fate == Fate.COMPLETED and value is not None
    )
    return BlockValues.from_buckets(Counter(buckets_by_block(known, blocks)), blocks)


def _gap_values(result: ReplayResult, blocks: Blocks) -> BlockValues:
    """A second belongs to the block in which its middle lies."""
    counted: Counter[tuple[int, int]] = Counter()
    gaps = result.gaps
    for second, bucket, count in zip(gaps.second, gaps.bucket, gaps.count, strict=True):
        counted[bucket, blocks.of(second + 0.5)] += count
    return BlockValues.from_buckets(counted, blocks)

"""Percentiles of durations, and histograms that stand for millions of them.

Percentile p of n sorted values lies at rank r = (n - 1) x p / 100, on the line between the values
beside r (type 7 of Hyndman and Fan 1996; numpy's default, and so what `vllm bench serve` prints).

A histogram counts values in buckets [g^i, g^(i+1)) with g = 1.01 and gives a value back as the
middle g^(i+1/2), at most 0.5 % off. A run with millions of gaps between tokens needs a few hundred
buckets; the mean is exact, for the sum is kept beside them.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import repeat
from operator import truediv
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LOG_GROWTH = math.log(1.01)
# A microsecond: shorter than any clock here tells apart, and zero has no logarithm.
_SMALLEST = 1e-6


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """None throughout when there was nothing to measure; the unit is that of the values."""

    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float | None = None


def percentile(ordered: Sequence[float], p: float) -> float | None:
    """Of values in ascending order; None when there are none."""
    if not ordered:
        return None
    rank = (len(ordered) - 1) * p / 100
    below = math.floor(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (rank - below)


def percentiles(values: Iterable[float]) -> Percentiles:
    ordered = sorted(values)
    if not ordered:
        return Percentiles()
    return Percentiles(
        p50=percentile(ordered, 50),
        p90=percentile(ordered, 90),
        p95=percentile(ordered, 95),
        p99=percentile(ordered, 99),
        mean=math.fsum(ordered) / len(ordered),
    )


def bucket_of(value: float) -> int:
    """The number of the bucket that counts this value."""
    return math.floor(math.log(max(value, _SMALLEST)) / _LOG_GROWTH)


def middle_of(bucket: int) -> float:
    return math.exp((bucket + 0.5) * _LOG_GROWTH)


class LogHistogram:
    """Counts of positive values, within half a percent of each."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.total = 0.0

    def add_all(self, values: Sequence[float]) -> None:
        """Each step for all values in turn, in C: there may be millions of them."""
        logs = map(math.log, map(max, values, repeat(_SMALLEST)))
        self.counts.update(map(math.floor, map(truediv, logs, repeat(_LOG_GROWTH))))
        self.total += math.fsum(values)

    def merge(self, other: LogHistogram) -> None:
        self.counts.update(other.counts)
        self.total += other.total

    def percentiles(self) -> Percentiles:
        size = self.counts.total()
        if not size:
            return Percentiles()
        buckets = sorted(self.counts)
        p50, p90, p95, p99 = (self._percentile(buckets, size, p) for p in (50, 90, 95, 99))
        return Percentiles(p50=p50, p90=p90, p95=p95, p99=p99, mean=self.total / size)

    def _percentile(self, buckets: Sequence[int], size: int, p: float) -> float:
        """The bucket in which the rank falls; between two buckets there is nothing to draw."""
        rank, passed = (size - 1) * p / 100, 0
        for bucket in buckets:
            passed += self.counts[bucket]
            if passed > rank:
                break
        return middle_of(bucket)

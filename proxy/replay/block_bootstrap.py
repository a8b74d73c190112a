"""Confidence intervals for a run under load, by resampling blocks of time.

Requests near in time share a queue, so they are not independent: to resample them one by one
would give intervals that are far too narrow. A run is cut into blocks of equal length by the time
at which requests arrived; a resample draws as many blocks, with replacement, and computes the
statistic anew. With w_k the number of times that block k was drawn, v_i a value of a request that
arrived in block k(i):

    sum:         sum over k of w_k x (sum of block k)
    percentile:  the v at which the weights w_k(i), in ascending order of v, reach the share p

The interval reaches from the 2.5th to the 97.5th percentile of 1,000 resamples. A block is at least
twice as long as the median request is in the system, for so long does a queue remember, while this
leaves ten blocks (non-overlapping blocks: Carlstein 1986).

Two runs of one load meet the same arrivals at the same times. One draw of blocks serves both
runs, so that a difference between them is not blurred by how hard a stretch of the load was.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from operator import mul
from typing import TYPE_CHECKING

from proxy.replay.percentiles import bucket_of, middle_of, percentile

if TYPE_CHECKING:
    import random
    from collections import Counter
    from collections.abc import Iterable, Sequence

RESAMPLES = 1000
FEWEST_BLOCKS = 10
_MOST_BLOCKS = 60
_LOW, _HIGH = 2.5, 97.5


@dataclass(frozen=True, slots=True)
class Interval:
    """Holds the value with 95 % confidence, as far as one run can tell."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Blocks:
    """The time in which requests arrive, cut into `count` parts of `length_s`. A run of less than
    `shortest_run_s` has parts shorter than a queue remembers: intervals are then too narrow."""

    count: int
    length_s: float
    shortest_run_s: float = 0.0

    @property
    def long_enough(self) -> bool:
        return self.count * self.length_s >= self.shortest_run_s

    def of(self, arrived_s: float) -> int:
        return min(int(arrived_s / self.length_s), self.count - 1)


def blocks_for(duration_s: float, time_in_system_s: float) -> Blocks:
    """As many as leave each twice as long as a request is in the system, but ten at least."""
    remembered_s = 2 * time_in_system_s
    wanted_s = max(remembered_s, duration_s / _MOST_BLOCKS)
    count = max(FEWEST_BLOCKS, math.floor(duration_s / wanted_s)) if wanted_s else FEWEST_BLOCKS
    return Blocks(count, duration_s / count, FEWEST_BLOCKS * remembered_s)


def draws(blocks: Blocks, rng: random.Random, resamples: int = RESAMPLES) -> list[list[int]]:
    """For each resample how often each block was drawn."""
    drawn = []
    for _ in range(resamples):
        weights = [0] * blocks.count
        for block in rng.choices(range(blocks.count), k=blocks.count):
            weights[block] += 1
        drawn.append(weights)
    return drawn


@dataclass(frozen=True, slots=True)
class BlockValues:
    """Ascending `values`, and for each how many of each block are not larger."""

    values: Sequence[float]
    up_to: Sequence[Sequence[int]]

    @classmethod
    def from_buckets(cls, counted: Counter[tuple[int, int]], blocks: Blocks) -> BlockValues:
        """From counts by (bucket of a histogram, block): however many values there were."""
        buckets = sorted({bucket for bucket, _ in counted})
        so_far, up_to = [0] * blocks.count, []
        for bucket in buckets:
            so_far = [n + counted[bucket, block] for block, n in enumerate(so_far)]
            up_to.append(so_far)
        return cls([middle_of(bucket) for bucket in buckets], up_to)

    def resampled_percentiles(
        self, weights: Sequence[int], shares: Iterable[float]
    ) -> list[float | None]:
        """`shares` from 0 to 1. None where no block with a value was drawn."""

        def drawn(counts: Sequence[int]) -> int:
            return sum(map(mul, counts, weights))

        total = drawn(self.up_to[-1]) if self.up_to else 0
        if not total:
            return [None for _ in shares]
        return [self.values[bisect_left(self.up_to, s * total, key=drawn)] for s in shares]


def buckets_by_block(
    values: Iterable[tuple[float, float]], blocks: Blocks
) -> Iterable[tuple[int, int]]:
    """From (arrival, value) of each request to what `BlockValues.from_buckets` counts."""
    return ((bucket_of(value), blocks.of(arrived_s)) for arrived_s, value in values)


def resampled_sum(sums: Sequence[float], weights: Sequence[int]) -> float:
    return math.fsum(map(mul, sums, weights))


def interval(resampled: Iterable[float | None]) -> Interval | None:
    """None when there is nothing to say: hardly any resample had a value."""
    known = sorted(value for value in resampled if value is not None)
    if len(known) < RESAMPLES // 2:
        return None
    low, high = percentile(known, _LOW), percentile(known, _HIGH)
    return None if low is None or high is None else Interval(low, high)

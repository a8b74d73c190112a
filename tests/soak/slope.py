"""How fast something grew, and whether that is more than noise.

Memory climbs in steps and wavers, and neighbouring readings resemble each other: a least-squares
line through all of them would be far too sure of itself. So

    1. the first third of the readings is left out: caches and histories fill up there
    2. the rest is cut into B = 30 blocks of equal length, each of which counts with its median
    3. slope = median of the slopes between all pairs of blocks              (Theil 1950, Sen 1968)
    4. its 95 % interval: the slopes at ranks (N - C) / 2 and (N + C) / 2 of all N = B (B - 1) / 2,
       C = 1.96 sqrt(B (B - 1) (2 B + 5) / 18)                              (Sen 1968, Kendall's S)

It is a leak when even the lower end of the interval is above what is taken for nothing; `floor`
says what that is, in the unit of the slope.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCKS = 30
WARM_UP_SHARE = 1 / 3
_Z = 1.96
# So that a block has some readings; fewer in all say nothing about a slope.
LEAST_READINGS = 4 * BLOCKS

Reading = tuple[float, float]
"""When, in seconds, and what."""


@dataclass(frozen=True)
class Slope:
    """Per second, with its 95 % interval. `over_s`: the time that was looked at."""

    per_s: float
    low: float
    high: float
    over_s: float
    first: float
    last: float

    def is_noise(self, floor: float) -> bool:
        return self.low <= floor


def judged(readings: Sequence[Reading]) -> Sequence[Reading]:
    """Those after the warm-up."""
    return readings[int(len(readings) * WARM_UP_SHARE) :]


def slope(readings: Sequence[Reading]) -> Slope | None:
    """None for too few of them."""
    if len(readings) < LEAST_READINGS:
        return None
    blocks = block_medians(judged(readings), BLOCKS)
    slopes = sorted((b - a) / (t - s) for (s, a), (t, b) in combinations(blocks, 2))
    low, high = _ranks(len(blocks), len(slopes))
    return Slope(
        per_s=statistics.median(slopes),
        low=slopes[low],
        high=slopes[high],
        over_s=blocks[-1][0] - blocks[0][0],
        first=blocks[0][1],
        last=blocks[-1][1],
    )


def block_medians(readings: Sequence[Reading], blocks: int) -> list[Reading]:
    """Each block's middle, in time and in value."""
    edges = [len(readings) * number // blocks for number in range(blocks + 1)]
    cut = [readings[begin:end] for begin, end in pairwise(edges)]
    return [
        (statistics.median(at for at, _ in one), statistics.median(value for _, value in one))
        for one in cut
    ]


def _ranks(blocks: int, slopes: int) -> tuple[int, int]:
    """Positions of the interval's ends among the sorted slopes."""
    spread = _Z * math.sqrt(blocks * (blocks - 1) * (2 * blocks + 5) / 18)
    low = math.floor((slopes - spread) / 2)
    return max(0, low), min(slopes - 1, math.ceil((slopes + spread) / 2))

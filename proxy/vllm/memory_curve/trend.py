"""A line through points that some of them do not lie on.

Theil (1950) and Sen (1968): the slope is the median of the slopes between all pairs of points, the
offset the median of what it leaves. Up to 29 % of the points may be anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Point = tuple[float, float]
_MOST_POINTS = 120


@dataclass(frozen=True, slots=True)
class Trend:
    """`level` at `from_s`, and `slope` for each second."""

    slope: float
    from_s: float
    level: float

    def at(self, moment_s: float) -> float:
        return self.level + self.slope * (moment_s - self.from_s)


def trend_of(points: Sequence[Point]) -> Trend:
    """Of many points, the medians of as many neighbourhoods as can be compared each with each."""
    points = _thinned(points)
    slopes = [
        (b - a) / (later - earlier)
        for (earlier, a), (later, b) in combinations(points, 2)
        if later > earlier
    ]
    slope = median(slopes) if slopes else 0.0
    from_s = points[0][0]
    return Trend(slope, from_s, median(y - slope * (x - from_s) for x, y in points))


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    if len(points) <= _MOST_POINTS:
        return points
    cuts = [len(points) * i // _MOST_POINTS for i in range(_MOST_POINTS + 1)]
    parts = [points[a:b] for a, b in pairwise(cuts)]
    return [(median(x for x, _ in part), median(y for _, y in part)) for part in parts]

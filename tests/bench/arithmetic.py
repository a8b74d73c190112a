"""The arithmetic of the report, on plain numbers."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Spread:
    """The middle of the rounds, with the least and the most of them.

    `missing`: rounds that have no value, so that the middle is of fewer.
    """

    median: float
    least: float
    most: float
    missing: int = 0

    @classmethod
    def of(cls, values: Sequence[float], rounds: int) -> Spread | None:
        """None of no values: absent is not zero."""
        if not values:
            return None
        return cls(statistics.median(values), min(values), max(values), rounds - len(values))


def percentile(sorted_values: Sequence[float], share: float) -> float:
    """The least value that `share` of all do not exceed (nearest rank). Needs at least one."""
    rank = math.ceil(share * len(sorted_values))
    return sorted_values[max(rank, 1) - 1]


def ratios(mine: Mapping[int, float], theirs: Mapping[int, float]) -> list[float]:
    """Mine to theirs in each round that has both, theirs above zero."""
    return [mine[number] / theirs[number] for number in mine if theirs.get(number, 0.0) > 0]


def added(mine: Mapping[int, float], base: Mapping[int, float]) -> dict[int, float]:
    """Mine less the base in each round that has both."""
    return {number: mine[number] - base[number] for number in mine if number in base}

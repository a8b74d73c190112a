"""Which limits to try next, and which one to recommend, when every trial is noisy.

Goodput rises with the limit up to a knee, is flat for a while, and falls where answers grow too
slow for the objective. The search surveys the range in geometric steps, halves the gaps beside the
limit that it would recommend (by their geometric mean) until neighbours lie within a tenth, and
repeats the limits that are still in question. The trials of one round follow each other in random
order, so that an engine that warms up or slows down does not favour one of them.

With n_x trials of limit x, mean m_x, and noise s pooled over all limits,

    s^2 = (2 x (0.02 m)^2 + sum over all trials of (score - m_x)^2) / (2 + sum over x of (n_x - 1))

(the first terms stand for what is expected before anything was repeated: 2 % of the best mean m),
x is as good as the best b if m_b - m_x <= 2 s sqrt(1/n_b + 1/n_x) and at most 5 % of m_b. The
smallest such limit is recommended: it leaves the engine the most room.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

_NEAR = 1.1
_EXPECTED_NOISE = 0.02
_EXPECTED_WEIGHT = 2
_MOST_GIVEN_AWAY = 0.05


@dataclass(frozen=True, slots=True)
class Range:
    """The limits that may be tried, both ends included."""

    low: int
    high: int

    def survey(self, points: int) -> list[int]:
        """About evenly spaced on a logarithmic scale; both ends among them."""
        if self.low == self.high or points < 2:
            return [self.low]
        step = math.log(self.high / self.low) / (points - 1)
        return sorted({round(self.low * math.exp(step * i)) for i in range(points)})


@dataclass(frozen=True, slots=True)
class Recommendation:
    """`as_good` are the limits that the trials cannot tell from the best, in ascending order."""

    limit: int
    best: int
    as_good: tuple[int, ...]
    noise: float


class LimitSearch:
    """Ask for a round, try its limits in the order given, record each score, ask again."""

    __slots__ = ("_range", "_repeats", "_rng", "_scores", "_survey", "_trials_left")

    def __init__(
        self, span: Range, rng: random.Random, *, points: int, repeats: int, trials: int
    ) -> None:
        """At most `trials` trials; `repeats` of each limit that is in question."""
        self._range = span
        self._rng = rng
        self._survey = span.survey(points)
        self._repeats = repeats
        self._trials_left = trials
        self._scores: dict[int, list[float]] = {}

    @property
    def scores(self) -> Mapping[int, Sequence[float]]:
        return self._scores

    def record(self, limit: int, score: float) -> None:
        self._scores.setdefault(limit, []).append(score)
        self._trials_left -= 1

    def spend(self) -> None:
        """A trial was played that tells nothing about its limit."""
        self._trials_left -= 1

    def next_round(self) -> list[int]:
        """Empty when the search is over: nothing is in question, or the trials are used up."""
        wanted = self._in_question()[: max(0, self._trials_left)]
        self._rng.shuffle(wanted)
        return wanted

    @property
    def is_surveyed(self) -> bool:
        """The range was looked at from end to end: without that no limit can be recommended."""
        return not self._unsurveyed()

    @property
    def is_settled(self) -> bool:
        """No limit is in question any more."""
        return not self._in_question()

    def _in_question(self) -> list[int]:
        return self._unsurveyed() or self._between_neighbours() or self._to_repeat()

    def recommendation(self) -> Recommendation | None:
        """None when nothing was tried, or nothing was good at any limit."""
        means = {limit: fmean(scores) for limit, scores in self._scores.items()}
        best = max(means, key=means.__getitem__, default=None)
        if best is None or means[best] <= 0:
            return None
        noise = self._noise(means, means[best])
        as_good = tuple(x for x in sorted(means) if self._as_good(x, best, means, noise))
        return Recommendation(as_good[0], best, as_good, noise)

    def _unsurveyed(self) -> list[int]:
        """Most telling first, in case the trials do not reach: the ends, then between them."""
        left = [limit for limit in self._survey if limit not in self._scores]
        return sorted(left, key=lambda limit: limit not in (self._range.low, self._range.high))

    def _between_neighbours(self) -> list[int]:
        """The middles of the gaps beside the limit in favour, which is tried again with them."""
        found = self.recommendation()
        if found is None:
            return []
        tried = sorted(self._scores)
        gaps = [gap for gap in itertools.pairwise(tried) if found.limit in gap]
        middles = [round(math.sqrt(low * high)) for low, high in gaps if high > low * _NEAR]
        middles = [middle for middle in middles if middle not in self._scores]
        return [*middles, found.limit] if middles else []

    def _to_repeat(self) -> list[int]:
        """Those that the decision rests on: the limits in favour, and the next smaller one."""
        found = self.recommendation()
        if found is None:
            return []
        smaller = [limit for limit in self._scores if limit < found.limit]
        in_question = {
            found.limit,
            found.best,
            *found.as_good[:2],
            max(smaller, default=found.limit),
        }
        return sorted(x for x in in_question if len(self._scores[x]) < self._repeats)

    def _noise(self, means: Mapping[int, float], best: float) -> float:
        squares = sum((s - means[x]) ** 2 for x, scores in self._scores.items() for s in scores)
        freedom = sum(len(scores) - 1 for scores in self._scores.values())
        expected = _EXPECTED_WEIGHT * (_EXPECTED_NOISE * best) ** 2
        return math.sqrt((expected + squares) / (_EXPECTED_WEIGHT + freedom))

    def _as_good(self, x: int, best: int, means: Mapping[int, float], noise: float) -> bool:
        behind = means[best] - means[x]
        scatter = math.sqrt(1 / len(self._scores[best]) + 1 / len(self._scores[x]))
        return behind <= min(2 * noise * scatter, _MOST_GIVEN_AWAY * means[best])

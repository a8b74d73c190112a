"""What comes in at the gateways of a fleet: a trace's gaps and lengths, at the rates of a day.

A gateway's arrivals are the trace's, in its order, from a place of its own, around and around; its
gaps are scaled so that the mean rate at any moment is

    r(t) = w * rho(t) * L / h      w    the gateway's part of what comes in, all parts sum up to 1
                                   rho  load: 1 is what all seats can just carry     L  all seats
                                   h    mean time for which a request of the trace holds its seat
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.replay.arrival import Arrival

PREFILL_S = 0.00025
"""For each token of the prompt: 4,000 a second."""

TPOT_S = 0.025
"""For each token of the answer: 40 a second, about what a reader notices."""

# Requests in each hour of a day, as parts of the busiest hour's: our means of the first day of one
# client's published ten-minute rates (ServeGen, arXiv 2505.09999, language/m-large, client 0).
DAY = (
    *(0.18, 0.06, 0.07, 0.11, 0.53, 0.13, 0.14, 0.23, 0.31, 1.00, 0.43, 0.53),
    *(0.45, 0.44, 0.71, 0.47, 0.76, 0.81, 0.51, 0.37, 0.41, 0.21, 0.38, 0.18),
)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One after another: gaps, of which the mean is 1, and for how long the seat is held."""

    gaps: tuple[float, ...]
    holds_s: tuple[float, ...]

    @property
    def mean_hold_s(self) -> float:
        return sum(self.holds_s) / len(self.holds_s)


def pattern_of(arrivals: Sequence[Arrival]) -> Pattern:
    """Raises ValueError where all come at the same moment."""
    gaps = [after.at_s - before.at_s for before, after in itertools.pairwise(arrivals)]
    mean_s = sum(gaps) / len(gaps) if gaps else 0.0
    if mean_s <= 0:
        raise ValueError("a trace needs requests at different times")
    holds_s = tuple(one.prompt_tokens * PREFILL_S + one.output_tokens * TPOT_S for one in arrivals)
    return Pattern(tuple(gap / mean_s for gap in gaps), holds_s)


@dataclass(frozen=True, slots=True)
class Profile:
    """Load over time: straight lines between points that are `step_s` apart; the last one stays."""

    loads: tuple[float, ...]
    step_s: float

    def at(self, seconds: float) -> float:
        place = max(0.0, seconds / self.step_s)
        before = int(place)
        if before >= len(self.loads) - 1:
            return self.loads[-1]
        start, end = self.loads[before : before + 2]
        return start + (end - start) * (place - before)


def day(peak: float, lasts_s: float) -> Profile:
    """A day of which the busiest hour has that load, played in `lasts_s`."""
    return Profile(tuple(peak * part for part in (*DAY, DAY[0])), lasts_s / len(DAY))


def steady(load: float) -> Profile:
    return Profile((load,), 1.0)


def parts(gateways: int, skew: float) -> tuple[float, ...]:
    """Of what comes in: alike at 0; else the n-th gateway gets a part as 1 / n^skew."""
    weights = [1 / (n + 1) ** skew for n in range(gateways)]
    return tuple(weight / sum(weights) for weight in weights)


def arrivals(
    pattern: Pattern, profile: Profile, rate_at_1: float, start: int
) -> Iterator[tuple[float, float]]:
    """When, and for how long, for ever; from the `start`-th gap of the pattern on. `rate_at_1`: a
    second, at load 1."""
    at_s = 0.0
    for n in itertools.count(start):
        at_s += pattern.gaps[n % len(pattern.gaps)] / (rate_at_1 * max(profile.at(at_s), 1e-9))
        yield at_s, pattern.holds_s[n % len(pattern.holds_s)]

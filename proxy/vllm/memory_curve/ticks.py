"""Which GPU a row is of, when no column says so: nvidia-smi writes the GPUs in turn, each tick."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import mode
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_GPUS = 16
# Rows of one tick follow each other at least so many times as closely as ticks do.
_APART = 4.0
_CLOSEST_S = 0.001


class Turns:
    """Deals rows out to `gpus` GPUs; a gap longer than `gap_s`, or a new header, begins a tick."""

    def __init__(self, gpus: int, gap_s: float | None) -> None:
        self.gpus = gpus
        self._gap_s = gap_s
        self._next = 0
        self._last_s: float | None = None

    def begin(self) -> None:
        """nvidia-smi was started anew."""
        self._next = 0
        self._last_s = None

    def gpu_of(self, at_s: float | None) -> int:
        if self._next == self.gpus or self._late(at_s):
            self._next = 0
        self._last_s = at_s
        self._next += 1
        return self._next - 1

    def _late(self, at_s: float | None) -> bool:
        if at_s is None or self._last_s is None or self._gap_s is None:
            return False
        return abs(at_s - self._last_s) > self._gap_s


def turns_of(moments: Sequence[float | None], told: int | None = None) -> Turns:
    """Learns from the first rows how many GPUs take turns; `told` if a column counted them.

    The gaps between rows fall into two sorts, within a tick and between ticks, where there are
    several GPUs; with one, they are all alike but for a hiccup now and then.
    """
    known = [moment for moment in moments if moment is not None]
    gaps = [max(b - a, _CLOSEST_S) for a, b in pairwise(known)]
    border = _border(sorted(gaps))
    if border is None:
        return Turns(told or 1, None)
    ends = [place for place, gap in enumerate(gaps) if gap > border]
    sizes = [b - a for a, b in zip([-1, *ends], ends, strict=False)]
    return Turns(told or mode(sizes), border)


def _border(gaps: Sequence[float]) -> float | None:
    """Between the two sorts of gaps, in seconds; None where there is one sort only."""
    pairs = list(pairwise(gaps))
    if not pairs:
        return None
    below = max(range(len(pairs)), key=lambda i: pairs[i][1] / pairs[i][0])
    low, high = pairs[below]
    long_gaps = len(gaps) - below - 1
    if high / low < _APART or long_gaps * (_MOST_GPUS + 1) < len(gaps):
        return None
    return math.sqrt(low * high)

"""Transient or steady: the shape of one life of an engine, by rules on its memory curve.

Let M be the card's memory (the highest use, where the file does not tell it), and d = max(2 % of M,
256 MiB) the least change that counts. After the start-up (lives.py):

  rise    Theil-Sen slope (the median slope between all pairs of up to 120 points) times duration.
          The median makes it blind to spikes, however high, as long as they fill less than a
          quarter of the time or so.
  spread  in tenths of the time: (ups - downs) / (ups + downs) of the tenths' medians, and the
          share of the largest up.
  spike   memory at least max(3 % of M, 256 MiB) above the base (the lower fifth, or the climb's
          line) that later falls back to within 35 % of its height above it.

  CLIMB        rise >= d, at least 0.6 of all movement upwards, no tenth with more than 0.6 of it;
               in a life of less than 60 s its last third also still rises: the median of that
               third's second half is above its first half's by at least a tenth of the rise
  SPIKE        a spike, higher than whatever the life also climbs
  LATE_JUMP    a jump in the last tenth, after which memory was given back: the end came with it
  STEP         memory rose and stayed: PyTorch's allocator keeps what a burst once took. So does a
               climb of less than 60 s that has come to a level: an engine that has just started
               keeps what each step took that was larger than any before
  FLAT_HIGH    none of these, and at least 97 % of M in use: on the edge
  FLAT         none of these: vLLM V1 takes its KV cache at the start, so a healthy engine is flat
  START_UP     it never came to rest: still loading when the curve or the process ended
  TOO_SHORT    fewer than 4 samples
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from itertools import pairwise
from statistics import median, quantiles
from typing import TYPE_CHECKING

from proxy.vllm.memory_curve.trend import Trend, trend_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.vllm.memory_curve.lives import Life
    from proxy.vllm.memory_curve.series import Bin

MIB = 1 << 20
_FEWEST = 4
_LEAST_CHANGE, _LEAST_SPIKE, _LEAST_BYTES = 0.02, 0.03, 256 * MIB
_SPREAD, _LARGEST_UP = 0.6, 0.6
_COMES_BACK = 0.35
_EDGE = 0.97
_LAST_PART = 0.1
# A life that begins empty and never rests is loading, unless it took off quickly or for longer.
_TAKE_OFF_SHARE, _LONGEST_START_UP_S = 0.1, 900.0
_TENTHS = 10
# So soon after its start an engine's high-water marks are spread as a climb's are.
_SHORT_LIFE_S, _LEAST_LATE_RISE = 60.0, 0.1


class Shape(Enum):
    CLIMB = auto()
    SPIKE = auto()
    LATE_JUMP = auto()
    STEP = auto()
    FLAT_HIGH = auto()
    FLAT = auto()
    START_UP = auto()
    TOO_SHORT = auto()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Sizes in bytes. `base` is the level without spikes, `top` what stands out most, `rise` what
    the life climbed in `duration_s`, `spikes` how often it rose and came back, the longest for
    `longest_s`."""

    shape: Shape
    base: float
    top: Bin
    rise: float = 0.0
    duration_s: float = 0.0
    spikes: int = 0
    longest_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Excursion:
    """A stretch above the base. `height` is its peak's above the base there."""

    bins: tuple[Bin, ...]
    top: Bin
    height: float
    returns: bool

    @property
    def duration_s(self) -> float:
        return self.bins[-1].last_s - self.bins[0].first_s


def shape_of(life: Life, scale: int, *, total_known: bool) -> Verdict:
    """`scale` is M of the rules above, `total_known` whether the file told it."""
    body = life.body
    top = max(body, key=lambda each: each.high)
    if len(life.bins) < _FEWEST:
        return Verdict(Shape.TOO_SHORT, median(each.mean for each in body), top)
    if _still_loading(life):
        return Verdict(Shape.START_UP, body[0].mean, top)
    trend = trend_of([((each.first_s + each.last_s) / 2, each.mean) for each in body])
    duration_s = body[-1].last_s - body[0].first_s
    rise = trend.slope * duration_s
    has_climbed = rise >= _least(scale, _LEAST_CHANGE) and _is_spread(body)
    climbs = has_climbed and not _has_come_to_a_level(life, rise)
    base = trend if climbs else Trend(0.0, 0.0, _lower_fifth(body))
    spikes = _excursions(body, base, _least(scale, _LEAST_SPIKE))
    returned = [each for each in spikes if each.returns]
    highest = max(returned, key=lambda each: each.height, default=None)
    longest_s = max((each.duration_s for each in returned), default=0.0)
    if climbs and (highest is None or rise >= highest.height):
        shape = Shape.CLIMB
    elif highest is not None:
        shape, top = Shape.SPIKE, highest.top
    elif has_climbed:
        shape = Shape.STEP
    else:
        shape = _without_spikes(life, spikes, scale, total_known=total_known)
    level = base.at(body[0].first_s)
    return Verdict(shape, level, top, max(rise, 0.0), duration_s, len(returned), longest_s)


def _without_spikes(life: Life, stays: list[_Excursion], scale: int, *, total_known: bool) -> Shape:
    if stays and life.ended and _is_late(stays[-1], life.body):
        return Shape.LATE_JUMP
    if stays:
        return Shape.STEP
    level = median(each.mean for each in life.body)
    return Shape.FLAT_HIGH if total_known and level >= scale * _EDGE else Shape.FLAT


def _is_late(jump: _Excursion, body: Sequence[Bin]) -> bool:
    return len(jump.bins) <= max(2, len(body) * _LAST_PART)


def _least(scale: int, share: float) -> float:
    """On a card of less than 8 GiB, or where a file shows little, the floor would be too high."""
    return max(scale * share, min(_LEAST_BYTES, scale * 2 * share))


def _still_loading(life: Life) -> bool:
    if life.settled or not life.started:
        return False
    whole_s = life.bins[-1].last_s - life.bins[0].first_s
    took_off_s = life.body[0].first_s - life.bins[0].first_s
    return took_off_s > whole_s * _TAKE_OFF_SHARE and whole_s <= _LONGEST_START_UP_S


def _lower_fifth(body: Sequence[Bin]) -> float:
    levels = [each.mean for each in body]
    return quantiles(levels, n=5)[0] if len(levels) >= _TENTHS else min(levels)


def _is_spread(body: Sequence[Bin]) -> bool:
    """Whether what it gained came bit by bit, rather than at once or up and down."""
    levels = [median(each.mean for each in part) for part in _parts(body)]
    moves = [after - before for before, after in pairwise(levels)]
    ups = sum(move for move in moves if move > 0)
    downs = -sum(move for move in moves if move < 0)
    return ups > 0 and ups - downs >= _SPREAD * (ups + downs) and max(moves) <= _LARGEST_UP * ups


def _has_come_to_a_level(life: Life, rise: float) -> bool:
    """Whether a climb was over before its life was. Says so of short lives only."""
    if life.bins[-1].last_s - life.bins[0].first_s >= _SHORT_LIFE_S:
        return False
    levels = [each.mean for each in life.body]
    last_third = levels[-max(2, len(levels) // 3) :]
    half = len(last_third) // 2
    return median(last_third[half:]) - median(last_third[:half]) < rise * _LEAST_LATE_RISE


def _parts(body: Sequence[Bin]) -> list[Sequence[Bin]]:
    parts = min(_TENTHS, len(body))
    cuts = [len(body) * i // parts for i in range(parts + 1)]
    return [body[a:b] for a, b in pairwise(cuts)]


def _excursions(body: Sequence[Bin], base: Trend, least: float) -> list[_Excursion]:
    """In order of time."""
    found: list[_Excursion] = []
    current: list[Bin] = []
    for place, each in enumerate(body):
        if each.high - base.at(each.last_s) > least:
            current.append(each)
        elif current:
            found.append(_excursion(current, base, body[place:]))
            current = []
    if current:
        found.append(_excursion(current, base, ()))
    return found


def _excursion(bins: list[Bin], base: Trend, later: Sequence[Bin]) -> _Excursion:
    top = max(bins, key=lambda each: each.high - base.at(each.last_s))
    height = top.high - base.at(top.last_s)
    # Many samples in one bin: it may have come back within.
    after = [*bins[bins.index(top) :], *later] if top.count > 1 else later
    border = height * _COMES_BACK
    returns = any(each.low - base.at(each.last_s) <= border for each in after)
    return _Excursion(tuple(bins), top, height, returns)

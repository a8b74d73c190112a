"""From one start of an engine to its end, as the card's memory shows it.

A card counts as empty below 5 % of its memory: no engine is so small once its weights are loaded,
and between two bursts memory never falls so low. What lies between two empty stretches is a life.

Its start-up lasts until memory first rests with at least half of the life's peak in hand, and
until the last jump of its first five minutes that stays: vLLM takes the KV cache at once, when the
weights have been in their place for a while.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.vllm.memory_curve.series import Bin

_EMPTY_SHARE = 0.05
_EMPTY_FROM = 0.3  # of a life's peak: whoever begins below was seen starting
_RESTS_AT = 0.5  # of a life's peak, at least: an engine waits for nothing with less in hand
_REST_SHARE = 0.05
_REST_BINS = 3
_RESTS_WITHIN = 0.02  # of the card's memory
_START_UP_S = 300.0
_JUMP = 0.05  # of the card's memory
_LAST_FIFTH, _FEWEST_AFTER = 0.2, 5  # what comes later may be the jump that an engine dies of
_NEVER_BELOW = 0.6  # of the level of the first rest: lower, and it was a burst, no start-up


@dataclass(frozen=True, slots=True)
class Life:
    """`body` is what comes after the start-up, and all of it where none was seen."""

    bins: tuple[Bin, ...]
    body: tuple[Bin, ...]
    started: bool  # its start-up is in the curve
    settled: bool  # it came to rest after the start-up, or was there from the beginning
    ended: bool  # memory was given back at its end

    @property
    def peak(self) -> int:
        return max(each.high for each in self.bins)


def lives_of(bins: Sequence[Bin], scale: int) -> list[Life]:
    """`scale` is the card's memory in bytes, or the highest use where nobody told it."""
    empty = scale * _EMPTY_SHARE
    lives: list[Life] = []
    current: list[Bin] = []
    was_empty = False
    for each in bins:
        if each.low > empty:
            current.append(each)
            continue
        if current:
            lives.append(_life(current, scale, was_empty=was_empty, ended=True))
            current = []
        was_empty = True
    if current:
        lives.append(_life(current, scale, was_empty=was_empty, ended=False))
    return lives


def _life(bins: list[Bin], scale: int, *, was_empty: bool, ended: bool) -> Life:
    peak = max(each.high for each in bins)
    started = was_empty or bins[0].low < peak * _EMPTY_FROM
    rest = _first_rest(bins, peak, scale) if started else 0
    if rest is not None and started and not _stays(bins, rest):
        rest, started = 0, was_empty
    if rest is None:
        rest = next(i for i, each in enumerate(bins) if each.high >= peak * _EMPTY_FROM)
        return Life(tuple(bins), tuple(bins[rest:]), started, settled=False, ended=ended)
    if started:
        rest = _after_the_last_jump(bins, rest, scale)
    return Life(tuple(bins), tuple(bins[rest:]), started, settled=True, ended=ended)


def _first_rest(bins: list[Bin], peak: int, scale: int) -> int | None:
    """Where memory first stands still, within 2 % of the card, for a twentieth of the life."""
    span = max(_REST_BINS, int(len(bins) * _REST_SHARE))
    for begin in range(len(bins) - span + 1):
        window = bins[begin : begin + span]
        if window[0].low < peak * _RESTS_AT:
            continue
        levels = [each.mean for each in window]
        if max(levels) - min(levels) <= scale * _RESTS_WITHIN:
            return begin
    return None


def _after_the_last_jump(bins: list[Bin], rest: int, scale: int) -> int:
    last = len(bins) - max(_FEWEST_AFTER, int(len(bins) * _LAST_FIFTH))
    for place in range(rest + 1, last + 1):
        if bins[place].first_s - bins[0].first_s > _START_UP_S:
            break
        up = bins[place].mean - bins[place - 1].mean
        floor = bins[place].mean - up / 2
        if up >= scale * _JUMP and all(each.low >= floor for each in bins[place:]):
            rest = place
    return rest


def _stays(bins: list[Bin], rest: int) -> bool:
    level = median(each.mean for each in bins[rest : rest + _REST_BINS])
    return min(each.low for each in bins[rest:]) >= level * _NEVER_BELOW

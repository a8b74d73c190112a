"""A limit that looks for the most seats which the engine can use: up slowly, down at once.

    not full, seats in use    L <- min(M, L + a * dt)          a = max(1, M / 50) seats a second
    close to the edge         L <- min(M, L + a / 10 * dt)
    full                      L <- max(F, L / 2, b * min(L, I))
    neither, or not in use    L stays

L: the limit; M, F: its maximum and its floor; I: seats in flight; b: 0.5 to 0.95, by how much the
engine is too full; edge: the seats in use when the engine was last too full.

The engine is full by any of

    queue > 0            b = 1 - queue / min(L, I)
    preemptions > 0      b = 0.85
    KV usage >= 0.95     b = 0.9 / usage               from 0.9 on the limit no longer rises
    tpot > 4 * best      b = 4 * best / tpot           from 3.6 on no rise

What an engine does not tell has no say; when it tells nothing, the limit stays where it is.

queue is what stands in the engine's own queue: the least of the last three counts, less 5 % of
min(L, I). Those who came since the engine's last step are waiting too, at any limit.

tpot is the time per output token, smoothed over 5 s; best is its least value so far. If a step
takes p + q * n for n sequences, tokens a second are n / (p + q * n), and at f times the best tpot
they have come to about 1 - 1/f of the most that they can be: a factor of 4 stops where at most a
quarter is left to gain, each bit of it dearer. best doubles in half an hour unless it is
confirmed, so that an engine which got slower for good is not held to its youth; if that is wrong,
the limit ends at the maximum, which is where it would be without this file.

After a cut nothing moves until those in flight fit the new limit and 3 s have passed, at most 30 s:
until then the figures still speak of the old one.

Sources: Chiu and Jain, "Analysis of the Increase and Decrease Algorithms for Congestion Avoidance
in Computer Networks" (1989) for the rule; a cut in proportion to the excess is DCTCP's (RFC 8257),
and the edge that is approached slowly is CUBIC's W_max (RFC 9438).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.admission.saturation import Saturation

_SECONDS_TO_MAXIMUM = 50.0
_SLOWER_NEAR_EDGE = 10.0
_NEAR_EDGE = 0.95
_PAST_EDGE = 1.2
_IN_USE = 0.8

_DEEPEST_CUT = 0.5
_SHALLOWEST_CUT = 0.95
_PREEMPTION_CUT = 0.85
_KV_FULL = 0.95
_KV_NEARLY_FULL = 0.9
_TPOT_FACTOR = 4.0
_TPOT_NEARLY = 0.9
_COUNTS = 3
_ALWAYS_WAITING = 0.05

_SETTLES_AFTER_S = 3.0
_SETTLES_BY_S = 30.0
_LONGEST_GAP_S = 2.0
_TPOT_SMOOTHING_S = 5.0  # more than the longest gap
_BEST_DOUBLES_IN_S = 1800.0


@dataclass(frozen=True, slots=True)
class Move:
    """`why` in words, for the log."""

    before: int
    after: int
    why: str

    def __str__(self) -> str:
        return f"limit {self.before} -> {self.after} seats: {self.why}"


@dataclass(frozen=True, slots=True)
class _Excess:
    """`keep`: the share of the seats in use that the engine could carry."""

    keep: float
    why: str


class AimdLimit:
    """Moves when observe() is told of the engine, between `floor` and `maximum`.

    It starts at `start` seats, by default the maximum: without evidence the operator is right.
    `floor` is a tenth of the maximum unless given. Raises ValueError unless
    1 <= floor <= start <= maximum.
    """

    __slots__ = (
        "_best_tpot_s",
        "_cut_at",
        "_edge",
        "_level",
        "_observed_at",
        "_tpot_s",
        "_waiting",
        "floor",
        "maximum",
        "seats",
    )

    def __init__(self, maximum: int, floor: int | None = None, start: int | None = None) -> None:
        self.maximum = maximum
        self.floor = max(1, maximum // 10) if floor is None else floor
        level = maximum if start is None else start
        if not 1 <= self.floor <= level <= maximum:
            raise ValueError(f"1 <= {self.floor} <= {level} <= {maximum} does not hold")
        self.seats = level
        """Of the level the whole seats: counted once, because every decision reads them."""
        self._level = float(level)
        self._observed_at: float | None = None
        self._cut_at: float | None = None
        self._edge: float | None = None
        self._waiting: deque[float] = deque(maxlen=_COUNTS)
        self._tpot_s: float | None = None
        self._best_tpot_s: float | None = None

    @property
    def ceiling(self) -> int:
        return self.maximum

    @property
    def widest(self) -> int:
        return self.seats

    @property
    def held(self) -> int:
        return self.maximum

    def set_most(self, seats: int) -> None:
        """A limit that stood at the old maximum goes with it, another one climbs from where it is.

        Raises ValueError below 1.
        """
        if seats < 1:
            raise ValueError(f"there is no limit of at most {seats} seats")
        was_open = self._level >= self.maximum
        self.maximum, self.floor = seats, max(1, min(self.floor, seats))
        self._level = float(seats) if was_open else min(self._level, float(seats))
        self.seats = int(self._level)

    def engine_restarted(self) -> None:
        """What was learned of the old engine's speed and edge is forgotten; the limit stays."""
        self._edge = self._cut_at = self._tpot_s = self._best_tpot_s = None
        self._waiting.clear()

    def observe(self, saturation: Saturation, in_flight: int, now: float) -> Move | None:
        """What the engine showed lately, and the seats that we have taken in it. To be told about
        once a second. Says how the limit moved, if it did."""
        since = now if self._observed_at is None else self._observed_at
        elapsed_s = min(max(0.0, now - since), _LONGEST_GAP_S)
        self._observed_at = now
        if saturation.is_unknown:
            return None
        self._waiting.append(saturation.waiting or 0.0)
        if self._best_tpot_s is not None:
            self._best_tpot_s *= 2 ** (elapsed_s / _BEST_DOUBLES_IN_S)
        if self._is_settling(in_flight, now):
            return None
        self._learn_tpot(saturation.tpot_s, elapsed_s)
        excess = min(self._excesses(saturation, in_flight), key=_keep, default=None)
        if excess is None:
            return self._rise(saturation, in_flight, elapsed_s)
        return self._cut(excess, in_flight, now)

    def _excesses(self, saturation: Saturation, in_flight: int) -> Iterator[_Excess]:
        used = self._used(in_flight)
        least = min(self._waiting) if len(self._waiting) == _COUNTS else 0.0
        if least > _ALWAYS_WAITING * used:
            why = f"{least:.0f} wait in the engine's own queue"
            yield _Excess(1 - least / used + _ALWAYS_WAITING, why)
        if saturation.preemptions_per_s:
            why = f"the engine preempts, {saturation.preemptions_per_s:.2g} sequences a second"
            yield _Excess(_PREEMPTION_CUT, why)
        usage = saturation.kv_cache_usage
        if usage is not None and usage >= _KV_FULL:
            yield _Excess(_KV_NEARLY_FULL / usage, f"its KV cache is {usage:.0%} full")
        slowness = self._slowness(saturation)
        if slowness > _TPOT_FACTOR:
            now_ms, best_ms = (self._tpot_s or 0.0) * 1e3, (self._best_tpot_s or 0.0) * 1e3
            why = f"a token takes {now_ms:.3g} ms, and took {best_ms:.3g} ms at best"
            yield _Excess(_TPOT_FACTOR / slowness, why)

    def _is_nearly_full(self, saturation: Saturation) -> bool:
        if self._slowness(saturation) > _TPOT_NEARLY * _TPOT_FACTOR:
            return True
        return (saturation.kv_cache_usage or 0.0) >= _KV_NEARLY_FULL

    def _slowness(self, saturation: Saturation) -> float:
        """How many times its best the engine takes for a token; 0 when it does not tell now."""
        if saturation.tpot_s is None or not self._tpot_s or not self._best_tpot_s:
            return 0.0
        return self._tpot_s / self._best_tpot_s

    def _rise(self, saturation: Saturation, in_flight: int, elapsed_s: float) -> Move | None:
        if in_flight < _IN_USE * self.seats or self._is_nearly_full(saturation):
            return None
        step = max(1.0, self.maximum / _SECONDS_TO_MAXIMUM) * elapsed_s
        if self._edge is not None:
            if self._level > max(self._edge * _PAST_EDGE, self._edge + 2):
                self._edge = None
            else:
                # Quickly up to where the edge is near, slowly from there on.
                near = min(self._edge * _NEAR_EDGE, self._edge - 1)
                quick = min(step, max(0.0, near - self._level))
                step = quick + (step - quick) / _SLOWER_NEAR_EDGE
        why = f"{in_flight} of {self.seats} seats in use, and the engine not full"
        return self._move_to(min(float(self.maximum), self._level + step), why)

    def _cut(self, excess: _Excess, in_flight: int, now: float) -> Move | None:
        used = self._used(in_flight)
        keep = min(_SHALLOWEST_CUT, max(_DEEPEST_CUT, excess.keep))
        self._edge = used
        self._cut_at = now
        self._waiting.clear()
        self._tpot_s = None
        level = max(float(self.floor), self._level * _DEEPEST_CUT, used * keep)
        return self._move_to(level, excess.why)

    def _used(self, in_flight: int) -> float:
        return max(1.0, min(self._level, in_flight))

    def _move_to(self, level: float, why: str) -> Move | None:
        self._level = level
        # Steps of a fraction of a seat add up to whole ones only up to rounding.
        before, self.seats = self.seats, int(level + 1e-9)
        return None if self.seats == before else Move(before, self.seats, why)

    def _is_settling(self, in_flight: int, now: float) -> bool:
        if self._cut_at is None:
            return False
        since_s = now - self._cut_at
        fits = in_flight <= self.seats and since_s >= _SETTLES_AFTER_S
        if fits or since_s >= _SETTLES_BY_S:
            self._cut_at = None
            return False
        return True

    def _learn_tpot(self, tpot_s: float | None, elapsed_s: float) -> None:
        if tpot_s is None or tpot_s <= 0:
            return
        smoothed_s = tpot_s if self._tpot_s is None else self._tpot_s
        smoothed_s += (tpot_s - smoothed_s) * elapsed_s / _TPOT_SMOOTHING_S
        self._tpot_s = smoothed_s
        self._best_tpot_s = min(self._best_tpot_s or math.inf, smoothed_s)


def _keep(excess: _Excess) -> float:
    return excess.keep

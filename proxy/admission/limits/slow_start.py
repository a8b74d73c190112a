"""After a recovery the seats open over some seconds, not all at once.

    seats(t) = max(1, floor(L * s(t)))     s(t) = s0 + (1 - s0) * min(1, (t - t0) / T)

t0: the recovery; T: how long the opening takes, 10 s; s0: the share that is open at once, a tenth;
L: the limit behind it, which may move meanwhile. At 0 seats there it stays 0.

shut() and probe() come before a recovery: no seat at all, or one, until begin().

An engine that comes back meets all those who waited for it. Started together, their prompts are
computed together and their KV caches fill together; and a cache that is cold, a kernel that is yet
to be compiled or an engine that is about to die again are better met by a few. The linear window is
that of Envoy's and HAProxy's `slow start` for a server that has come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.admission.ports import Limit

OPENS_OVER_S = 10.0
OPEN_AT_ONCE = 0.1


class SlowStart:
    """All of `limit` until begin(); from then on it opens as advance() is told the time.

    Raises ValueError for a time or a share that cannot be.
    """

    __slots__ = (
        *("_awaits_begin", "_began_at", "_least", "_limit"),
        *("_open_at_once", "_opens_over_s", "_share"),
    )

    def __init__(
        self,
        limit: Limit,
        opens_over_s: float = OPENS_OVER_S,
        open_at_once: float = OPEN_AT_ONCE,
    ) -> None:
        if opens_over_s <= 0 or not 0 <= open_at_once <= 1:
            raise ValueError(f"cannot open over {opens_over_s} s from a share of {open_at_once}")
        self._limit = limit
        self._opens_over_s = opens_over_s
        self._open_at_once = open_at_once
        self._began_at = 0.0
        self._share = 1.0
        self._least = 1
        self._awaits_begin = False

    @property
    def seats(self) -> int:
        full = self._limit.seats
        if self._share >= 1:  # nearly always, and read at every decision
            return full
        return self._part_of(full)

    @property
    def ceiling(self) -> int:
        return self._limit.ceiling

    @property
    def widest(self) -> int:
        widest = self._limit.widest
        return widest if self._share >= 1 else self._part_of(widest)

    @property
    def held(self) -> int:
        return self._limit.held

    @property
    def is_opening(self) -> bool:
        """advance() may still open more."""
        return self._share < 1

    @property
    def is_shut(self) -> bool:
        """No seat is open before begin()."""
        return not self._least

    def shut(self) -> None:
        """No seat: nothing is known of the engine yet."""
        self._awaits_begin, self._least, self._share = True, 0, 0.0

    def probe(self) -> None:
        """One seat, to see whether it goes well."""
        self._awaits_begin, self._least, self._share = True, 1, 0.0

    def begin(self, now: float) -> None:
        """The engine has just recovered; again from the start when it had not opened yet."""
        self._awaits_begin, self._least = False, 1
        self._began_at = now
        self._share = self._open_at_once

    def advance(self, now: float) -> bool:
        """Opens what is due by now. True when there are more seats than before."""
        if self._awaits_begin or not self.is_opening:
            return False
        before = self.seats
        passed = max(0.0, now - self._began_at) / self._opens_over_s
        share = self._open_at_once + (1 - self._open_at_once) * min(1.0, passed)
        self._share = max(self._share, share)
        return self.seats > before

    def _part_of(self, full: int) -> int:
        return min(full, max(self._least, int(full * self._share)))

"""Takes an engine out for a while when what it was sent fails, sooner than its health check would.

    closed     everything passes. It opens at the first connection that cannot be made, or when
               half of the last 20 answers were failures (of 10 at least, in the last 30 s)
    open       nothing passes, for 1 s after the first time, then 2 s, 4 s and so on up to 60 s
    half open  one request at a time passes; the first one that ends well closes it, one that fails
               opens it again

It opens only while others can take over; when those are gone it is half open at once. Once it has
been closed for 60 s it begins at 1 s again. A circuit breaker as M. Nygard describes it (Release
It!, 2007). One failed connection is enough, because the request whose it was has not been sent: it
goes to another engine at no risk, and must not meet the same one again.
"""

from __future__ import annotations

import enum
from collections import deque

FIRST_COOL_DOWN_S = 1.0
LONGEST_COOL_DOWN_S = 60.0
_WINDOW, _LEAST, _WINDOW_S = 20, 10, 30.0
_FORGIVEN_AFTER_S = 60.0


class BreakerState(enum.Enum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"


class CircuitBreaker:
    """Is told what came of each request, and the time. `reason` says in words why it is open."""

    def __init__(self) -> None:
        self.state = BreakerState.CLOSED
        self.reason = ""
        self._cool_down_s = FIRST_COOL_DOWN_S
        self._open_until = 0.0
        self._closed_since = 0.0
        self._latest: deque[tuple[float, bool]] = deque(maxlen=_WINDOW)

    @property
    def is_calm(self) -> bool:
        """Nothing has failed lately: succeeded() would do nothing."""
        return self.state is BreakerState.CLOSED and not self._latest

    def succeeded(self, now: float) -> bool:
        """True when that closes it."""
        if self.state is BreakerState.HALF_OPEN:
            self.state = BreakerState.CLOSED
            self.reason = ""
            self._closed_since = now
            self._latest.clear()
            return True
        if self._latest:  # else there is nothing to weigh it against
            self._latest.append((now, True))
            self._forget_old(now)
            if all(good for _, good in self._latest):
                self._latest.clear()
        return False

    def failed(self, now: float, why: str, *, may_open: bool) -> bool:
        """An answer was a failure, or broke off. True when that opens it.

        `may_open`: others can take over. An engine that is the last one is never taken out.
        """
        if self.state is BreakerState.OPEN:  # begun before that
            return False
        if self.state is BreakerState.HALF_OPEN:
            return may_open and self._open(now, why)
        self._latest.append((now, False))
        self._forget_old(now)
        bad = sum(not good for _, good in self._latest)
        too_many = len(self._latest) >= _LEAST and 2 * bad >= len(self._latest)
        return (may_open and too_many) and self._open(
            now, f"{bad} of the last {len(self._latest)} requests failed, {why}"
        )

    def not_connected(self, now: float, why: str, *, may_open: bool) -> bool:
        """As failed(), of a connection that could not be made."""
        return may_open and self.state is not BreakerState.OPEN and self._open(now, why)

    def advance(self, now: float, *, is_alone: bool = False) -> bool:
        """True when it is half open from now on. `is_alone`: nobody else can take over."""
        if self.state is BreakerState.OPEN and (is_alone or now >= self._open_until):
            self.state = BreakerState.HALF_OPEN
            return True
        return False

    def _open(self, now: float, why: str) -> bool:
        if self.state is BreakerState.CLOSED and now - self._closed_since > _FORGIVEN_AFTER_S:
            self._cool_down_s = FIRST_COOL_DOWN_S
        self.state = BreakerState.OPEN
        self.reason = f"taken out for {self._cool_down_s:g} s: {why}"
        self._open_until = now + self._cool_down_s
        self._cool_down_s = min(2 * self._cool_down_s, LONGEST_COOL_DOWN_S)
        self._latest.clear()
        return True

    def _forget_old(self, now: float) -> None:
        while self._latest and now - self._latest[0][0] > _WINDOW_S:
            self._latest.popleft()

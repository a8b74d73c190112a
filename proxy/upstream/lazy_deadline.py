"""A deadline that moves on every chunk, at the price of two assignments.

Cancelling and re-arming a loop timer for each wait would cost more than the wait itself. So the
timer is left where it is: when it fires and the deadline has moved on, it re-arms for what is left.
It is armed no further ahead than `horizon_s`, the shortest timeout in use, so that a deadline set
later hardly ever lies before it, which is the only case that needs a new timer at once.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from proxy.upstream.late_expiry import GRACE_S, LATE_S

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class LazyDeadline:
    """Calls `on_expired` once loop.time() has reached the moment last `set()`, and never before; a
    little later when that is noticed late (see late_expiry).

    `set(inf)` disarms. After `close()` nothing is left on the loop, and `set()` does nothing.
    """

    __slots__ = ("_armed_for", "_excused", "_horizon_s", "_loop", "_on_expired", "_timer", "at")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, horizon_s: float, on_expired: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._horizon_s = horizon_s
        self._on_expired = on_expired
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = inf
        self._excused = inf
        self.at = inf

    def set(self, at: float) -> None:
        self.at = at
        if at < self._armed_for:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = min(self.at, self._loop.time() + self._horizon_s)
        self._timer = self._loop.call_at(self._armed_for, self._look)

    def _look(self) -> None:
        self._timer = None
        self._armed_for = inf
        now = self._loop.time()
        if now < self.at:
            if self.at < inf:
                self._arm()
        elif now - self.at > LATE_S and self.at != self._excused:
            self._excused = self.at
            self._armed_for = now + GRACE_S
            self._timer = self._loop.call_at(self._armed_for, self._look)
        else:
            self.at = inf
            self._on_expired()

    def close(self) -> None:
        self._armed_for = -inf  # no deadline lies before it, so none arms the timer again
        self._on_expired = _nothing  # it leads back to whoever has this
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _nothing() -> None:
    """Instead of what is not to be called any more."""

"""Time limits in a process that was held up: stopped, swapped out, or long in one step.

When its event loop goes on, it runs the timers that are overdue before it looks at its sockets:
what had come in time would be judged as missing. So a limit that is noticed late is judged a little
later, when the loop has read what there is; once, or a loop that is always late would have none.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

LATE_S: Final = 0.25
GRACE_S: Final = 0.25


def is_noticed_late(due: float) -> bool:
    """Whether the running loop should have been here long ago."""
    return asyncio.get_running_loop().time() - due > LATE_S


class TimeLimit:
    """As asyncio.timeout_at(), for what must not be interrupted before the loop has read. One that
    is over before it begins is not excused."""

    def __init__(self, at: float = inf) -> None:
        self._at = at
        self._timer: asyncio.TimerHandle | None = None
        self._limit = asyncio.timeout(None)

    def reschedule(self, at: float) -> None:
        """Only inside the block."""
        self._stop()
        self._at = at
        if at < inf:
            self._timer = asyncio.get_running_loop().call_at(at, self._look)

    def expired(self) -> bool:
        return self._limit.expired()

    async def __aenter__(self) -> Self:
        await self._limit.__aenter__()
        self.reschedule(max(self._at, asyncio.get_running_loop().time()))
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()
        await self._limit.__aexit__(exc_type, exc, traceback)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        if is_noticed_late(self._at):
            self._timer = asyncio.get_running_loop().call_later(GRACE_S, self._expire)
        else:
            self._expire()

    def _expire(self) -> None:
        self._limit.reschedule(asyncio.get_running_loop().time())


def time_limit(limit_s: float) -> TimeLimit:
    """From now on."""
    return TimeLimit(asyncio.get_running_loop().time() + limit_s)

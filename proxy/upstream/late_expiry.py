"""Time limits in a process that was held up: stopped, swapped out, or long in one step.

When its event loop goes on, it runs the timers that are overdue before it looks at its sockets:
what had come in time would be judged as missing. So a limit that is noticed late is judged a little
later, when the loop has read what there is; once, or a loop that is always late would have none.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LATE_S: Final = 0.25
GRACE_S: Final = 0.25


def is_noticed_late(due: float) -> bool:
    """Whether the running loop should have been here long ago."""
    return asyncio.get_running_loop().time() - due > LATE_S


@contextlib.asynccontextmanager
async def time_limit(limit_s: float) -> AsyncIterator[asyncio.Timeout]:
    """As asyncio.timeout(), for what must not be interrupted before the loop has read."""
    loop = asyncio.get_running_loop()
    due = loop.time() + max(limit_s, 0.0)
    timer: asyncio.TimerHandle
    async with asyncio.timeout(None) as limit:

        def expire() -> None:
            limit.reschedule(loop.time())

        def look() -> None:
            nonlocal timer
            if is_noticed_late(due):
                timer = loop.call_later(GRACE_S, expire)
            else:
                expire()

        timer = loop.call_at(due, look)
        try:
            yield limit
        finally:
            timer.cancel()

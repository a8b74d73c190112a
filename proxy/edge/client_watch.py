"""Notices, while a request waits or streams, that its client has left.

Everything between the end of the request body and the last response byte runs inside one
ClientWatch: the wait in the queue, the wait for the engine's headers, and the gaps between chunks.
It ends the work by cancelling the task, as asyncio.timeout does, so that no step on the way needs
to know about it: permits and engine connections are given back by the `async with` they live in.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from starlette.types import Receive

# A request that is over sooner never pays for a listener task (about 8 us on one core, 2026-12).
# With the tick it is well within the 100 ms in which a client that left must be noticed.
_LISTEN_AFTER_S = 0.02
_TICK_S = 0.01


class Interruption(enum.Enum):
    """Why a request was ended from outside."""

    CLIENT_GONE = "client_gone"
    DRAIN_ENDED = "drain_ended"


class Interrupted(Exception):
    """The work inside a ClientWatch was ended; `interruption` says why."""

    def __init__(self, interruption: Interruption) -> None:
        super().__init__(interruption.value)
        self.interruption = interruption


class LateListeners:
    """Starts the listeners of the watches that are not over after a while.

    One timer serves them all: one for each request would be set and cancelled for nothing nearly
    every time (2 us of 60, Python 3.13, 2026-12).
    """

    __slots__ = ("_due", "_loop", "_ticks")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: deque[tuple[float, ClientWatch]] = deque()
        self._ticks = False

    def add(self, watch: ClientWatch) -> None:
        self._due.append((self._loop.time() + _LISTEN_AFTER_S, watch))
        if not self._ticks:
            self._ticks = True
            self._loop.call_later(_LISTEN_AFTER_S, self._tick)

    def _tick(self) -> None:
        now = self._loop.time()
        while self._due and self._due[0][0] <= now:
            _, watch = self._due.popleft()
            watch.start_listening(self._loop)
        self._ticks = bool(self._due)
        if self._ticks:
            self._loop.call_later(_TICK_S, self._tick)


class ClientWatch:
    """Async context manager around the work for one request.

    Leaving it raises Interrupted when the work was ended by the watch.
    """

    __slots__ = (
        "_cancelling_before",
        "_has_stopped",
        "_interruption",
        "_late_listeners",
        "_listener",
        "_receive",
        "_task",
    )

    def __init__(self, receive: Receive, late_listeners: LateListeners) -> None:
        self._receive = receive
        self._late_listeners = late_listeners
        self._task: asyncio.Task[object] | None = None
        self._has_stopped = False
        self._listener: asyncio.Task[None] | None = None
        self._interruption: Interruption | None = None
        self._cancelling_before = 0

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:  # pragma: no cover - an `async with` always runs in a task
            raise RuntimeError("a ClientWatch needs a task to cancel")
        self._task = task
        self._cancelling_before = task.cancelling()
        return self

    def body_received(self) -> None:
        """From here on nobody else calls receive(): the watch may."""
        self._late_listeners.add(self)

    def stop_listening(self) -> None:
        """The answer is out. The server now says `http.disconnect` whether or not the client has
        left, and the work that remains (giving the engine's connection back) may take a moment."""
        self._has_stopped = True
        listener, self._listener = self._listener, None
        if listener is not None:
            # Not kept: how it ended leads back here, by the traceback, and would tie a knot.
            listener.cancel()

    def interrupt(self, interruption: Interruption) -> None:
        """Ends the work; only the first interruption counts."""
        if self._interruption is None and self._task is not None:
            self._interruption = interruption
            self._task.cancel()

    def start_listening(self, loop: asyncio.AbstractEventLoop) -> None:
        """Unless the answer is out by now."""
        if not self._has_stopped:
            self._listener = loop.create_task(self._listen())

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.interrupt(Interruption.CLIENT_GONE)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop_listening()
        task, self._task = self._task, None
        if self._interruption is None or task is None:
            return
        if exc_type is None or not issubclass(exc_type, asyncio.CancelledError):
            await _absorb_pending_cancel()
        if task.uncancel() > self._cancelling_before:
            # Somebody else cancelled the task too. That goes on, even if ours was delivered.
            raise asyncio.CancelledError
        raise Interrupted(self._interruption) from exc


async def _absorb_pending_cancel() -> None:
    """Our cancel() came after the last await of the work; take it here, not in later code."""
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        return

"""No new requests, and running ones finish: for a while, or at the end of the process's life, when
the rest is broken.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.edge.client_watch import Interruption

if TYPE_CHECKING:
    from proxy.edge.client_watch import ClientWatch


class Drain:
    """Knows the requests that run, whether new ones are let in, and whether the process ends."""

    def __init__(self) -> None:
        self.begun = False
        """Nothing new is let in."""
        self.is_final = False
        """The process was told to stop."""
        self._over = False
        self._running: set[ClientWatch] = set()
        self._idle = asyncio.Event()

    def enter(self, watch: ClientWatch) -> None:
        """A request that comes when the drain is over is ended at once: nobody waits for it."""
        self._running.add(watch)
        if self._over:
            watch.interrupt(Interruption.DRAIN_ENDED)

    def leave(self, watch: ClientWatch) -> None:
        self._running.discard(watch)
        if self.is_final and not self._running:
            self._idle.set()

    @property
    def running(self) -> int:
        return len(self._running)

    def begin(self) -> None:
        """For good: what finish() waits for."""
        self.begun = self.is_final = True
        if not self._running:
            self._idle.set()

    def pause(self) -> None:
        """Until resume()."""
        self.begun = True

    def resume(self) -> bool:
        """False once begin() was called, which nothing takes back."""
        self.begun = self.is_final
        return not self.is_final

    @property
    def is_over(self) -> bool:
        """Nothing runs any more, and nothing will: the process is about to end."""
        return self.is_final and (self._over or not self._running)

    async def finish(self, timeout_s: float) -> int:
        """Waits until nothing runs, at most `timeout_s`; then ends the rest.

        Returns how many requests were broken off.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            self._over = True
            rest = list(self._running)
            for watch in rest:
                watch.interrupt(Interruption.DRAIN_ENDED)
            await self._idle.wait()
            return len(rest)
        self._over = True
        return 0

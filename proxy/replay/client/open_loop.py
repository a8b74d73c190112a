"""Plays a schedule: every request starts when it is due, whatever became of those before it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from proxy.replay.arrival import Arrival
    from proxy.replay.client.requester import Requester
    from proxy.replay.outcome import RequestRecord

# Timers of the event loop are no finer.
_TICK_S = 0.001


async def play(
    arrivals: Iterable[Arrival],
    requester: Requester,
    clock: Callable[[], float],
    keep: Callable[[RequestRecord], None],
) -> None:
    """Returns when the last request has ended; `keep` has each by then. Cancelled, it ends those
    under way, of which `keep` hears nothing."""

    async def one(arrival: Arrival, number: int) -> None:
        keep(await requester.ask(arrival, number))

    async with asyncio.TaskGroup() as requests:
        await _Starter(arrivals, clock, lambda *which: requests.create_task(one(*which))).run()


class _Starter:
    """Starts each arrival in the callback of its timer. A task that slept until then would first
    be woken, which under load costs a turn of the event loop more: tens of milliseconds."""

    def __init__(
        self,
        arrivals: Iterable[Arrival],
        clock: Callable[[], float],
        start: Callable[[Arrival, int], object],
    ) -> None:
        self._left = enumerate(arrivals)
        self._clock = clock
        self._start = start
        self._loop = asyncio.get_running_loop()
        self._over = self._loop.create_future()

    async def run(self) -> None:
        """Until all have been started."""
        self._next()
        await self._over

    def _next(self) -> None:
        for number, arrival in self._left:
            if arrival.at_s > self._clock():
                self._wait_for(arrival, number)
                return
            self._start(arrival, number)
        self._over.set_result(None)

    def _wait_for(self, arrival: Arrival, number: int) -> None:
        ahead_s = arrival.at_s - self._clock()
        self._loop.call_later(max(ahead_s, _TICK_S), self._due, arrival, number)

    def _due(self, arrival: Arrival, number: int) -> None:
        if self._over.done():  # cancelled
            return
        if arrival.at_s > self._clock():  # a timer may be early
            self._wait_for(arrival, number)
            return
        self._start(arrival, number)
        self._next()

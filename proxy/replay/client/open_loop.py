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
        for number, arrival in enumerate(arrivals):
            while (ahead_s := arrival.at_s - clock()) > 0:  # noqa: ASYNC110 - a timer may be early
                await asyncio.sleep(max(ahead_s, _TICK_S))
            requests.create_task(one(arrival, number))

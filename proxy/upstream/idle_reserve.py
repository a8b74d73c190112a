"""The idle connections of all pools of a process, as what there is when descriptors run short.

A connection is kept for seconds after its request. With several engines those to one of them may
hold the descriptors that a connection to another needs, or a client, and be of use to nobody
meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class KeepsIdle(Protocol):
    """A pool."""

    @property
    def connections(self) -> int:
        """How many it has, in use, on their way or idle."""
        ...

    @property
    def oldest_idle_since(self) -> float | None:
        """Since when, by the loop's clock, the one rests that has rested longest."""
        ...

    def give_up_oldest_idle(self) -> asyncio.Future[None]:
        """Ends that one, which there is; done once its descriptor is free."""
        ...


class IdleReserve:
    """Pools join it. Only who needs a fresh connection asks it for something: requests that find
    an idle one pay nothing for it."""

    def __init__(self) -> None:
        self._pools: set[KeepsIdle] = set()
        self._most: Callable[[], int] | None = None

    def join(self, pool: KeepsIdle) -> None:
        self._pools.add(pool)

    def leave(self, pool: KeepsIdle) -> None:
        self._pools.discard(pool)

    def keep_within(self, most: Callable[[], int] | None) -> None:
        """As many connections as all pools together are to have from now on, or a few more for a
        moment; None for any number. It is asked for each fresh one, and holds for idle ones only:
        how many are in use at a time is for others to bound."""
        self._most = most

    def make_room(self) -> None:
        """For one connection that its pool counts already."""
        if self._most is None:
            return
        surplus = sum(pool.connections for pool in self._pools) - self._most()
        while surplus > 0 and self._give_up_one() is not None:
            surplus -= 1

    async def free_one(self) -> bool:
        """Once it returns one descriptor is free; False when there was no idle connection."""
        ended = self._give_up_one()
        if ended is None:
            return False
        await asyncio.wait([ended])  # whoever gives up waiting must not cancel it
        return True

    def _give_up_one(self) -> asyncio.Future[None] | None:
        """The one that has rested longest, of whichever pool."""
        rested = [
            (since, number, pool)
            for number, pool in enumerate(self._pools)
            if (since := pool.oldest_idle_since) is not None
        ]
        return min(rested)[2].give_up_oldest_idle() if rested else None

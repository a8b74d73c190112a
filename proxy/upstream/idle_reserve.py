"""The idle connections of all pools of a process, as what there is when descriptors run out.

A connection is kept for seconds after its request. With several engines those of one may hold the
descriptors that a connection to another needs, and would be of use to nobody meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from proxy.upstream.connection import Connection


class KeepsIdle(Protocol):
    """A pool."""

    def oldest_idle(self) -> Connection | None:
        """The connection that has been idle longest."""
        ...


class IdleReserve:
    """Pools join it. It asks them only when it is needed, so that requests pay nothing for it."""

    def __init__(self) -> None:
        self._pools: set[KeepsIdle] = set()

    def join(self, pool: KeepsIdle) -> None:
        self._pools.add(pool)

    def leave(self, pool: KeepsIdle) -> None:
        self._pools.discard(pool)

    async def give_up_one(self) -> bool:
        """Ends the connection that has been idle longest, of whichever pool, and returns once its
        descriptor is free; False when there is none."""
        found = [idle for pool in self._pools if (idle := pool.oldest_idle()) is not None]
        oldest = min(found, key=lambda connection: connection.idle_since, default=None)
        if oldest is None:
            return False
        oldest.abort()
        await asyncio.wait([oldest.lost])  # whoever gives up waiting must not cancel it
        return True

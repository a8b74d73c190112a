"""The store as gateways meet it: one core, which works off what it is asked in the order of coming.

The rules are the product's, in memory; what a renewal costs was measured on a real Redis (costs()).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.shared_limit.memory_store import MemoryStore
from proxy.shared_limit.store import StoreAwayError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.shared_limit.store import Granted, Renewal

ANSWERS_WITHIN_S = 1.0
"""As long as the gateway's own client waits."""

_ON_THE_WAY_S = 0.001

# Microseconds by the number of gateways: of the store's core for one lease, and of the gateway's
# own for asking and reading the answer. Redis 7.0 and CPython 3.11; `--costs` measures them anew.
_STORE_US = ((1, 22.0), (4, 37.0), (10, 61.0), (30, 160.0), (100, 895.0))
_GATEWAY_US = ((1, 32.0), (4, 36.0), (10, 37.0), (30, 47.0), (100, 158.0))


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of each renewal of one lease."""

    store_s: float
    gateway_s: float


def costs(gateways: int) -> Costs:
    """Between what was measured straight lines; beyond, as the last one goes on."""
    return Costs(_between(_STORE_US, gateways) / 1e6, _between(_GATEWAY_US, gateways) / 1e6)


FREE = Costs(0.0, 0.0)


def _between(points: tuple[tuple[int, float], ...], x: int) -> float:
    at = min(max(bisect_left(points, (x, 0.0)), 1), len(points) - 1)
    (x0, y0), (x1, y1) = points[at - 1], points[at]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


class StoreModel:
    """A store with all gateways connected to it. `busy_s` seconds it has worked, `round_trips` it
    was asked, for `renewals` leases; `timeouts` of them were not answered in time."""

    def __init__(self, clock: Callable[[], float], costs: Costs) -> None:
        self._rules = MemoryStore(clock)
        self._clock = clock
        self._costs = costs
        self._free_at = float("-inf")
        self._at_work: set[asyncio.Task[Mapping[str, Granted | None]]] = set()
        self.busy_s = 0.0
        self.round_trips = self.renewals = self.timeouts = 0

    def connect(self, gateway: str) -> None:
        assert self._rules.open_connections is not None
        self._rules.open_connections.add(gateway)

    async def renew(self, asked: Mapping[str, Renewal]) -> Mapping[str, Granted | None]:
        work = asyncio.create_task(self._done(asked, self._queued(len(asked))))
        self._at_work.add(work)
        work.add_done_callback(self._at_work.discard)
        done, _ = await asyncio.wait({work}, timeout=ANSWERS_WITHIN_S)
        if not done:  # it will be done all the same, and nobody hears of it
            self.timeouts += 1
            raise StoreAwayError(f"no answer within {ANSWERS_WITHIN_S:g} s")
        return work.result()

    async def connected(self) -> frozenset[str] | None:
        return await self._rules.connected()

    async def aclose(self) -> None:
        """Nothing is open."""

    def _queued(self, leases: int) -> float:
        """When the store will be through with them."""
        takes_s = leases * self._costs.store_s
        self._free_at = max(self._clock(), self._free_at) + takes_s
        self.busy_s += takes_s
        self.round_trips += 1
        self.renewals += leases
        return self._free_at

    async def _done(self, asked: Mapping[str, Renewal], at: float) -> Mapping[str, Granted | None]:
        await asyncio.sleep(at - self._clock() + _ON_THE_WAY_S / 2)
        answers = await self._rules.renew(asked)
        await asyncio.sleep(len(asked) * self._costs.gateway_s + _ON_THE_WAY_S / 2)
        return answers

    async def idle(self) -> None:
        """Nothing is being worked on."""
        while self._at_work:
            await asyncio.wait(set(self._at_work))

    async def stop(self) -> None:
        """What it has not done yet stays undone."""
        for work in self._at_work:
            work.cancel()
        await self.idle()

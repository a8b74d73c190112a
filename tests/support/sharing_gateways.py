"""Gateways that share the limit of one engine, as far as the limit is concerned: what they hold and
what they take. Time passes when the test says so.

    world = World(new_store, clock, limit=8, gateways=3)
    await world.pass_time(1)
    world.gateways[0].wait_for(5)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING

from proxy.admission.snapshot import Demand
from proxy.shared_limit.lease_keeper import LeaseKeeper
from proxy.shared_limit.store import StoreAwayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from proxy.shared_limit.store import Granted, LeaseStore, Renewal

ENGINE = "engine"
RENEWS_EVERY_S = 0.25


@dataclass
class Clock:
    """Seconds; moved by hand. It begins late enough for any subtraction."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Link(StrEnum):
    """Between a gateway and the store."""

    UP = "up"
    CUT = "cut"
    """Nothing arrives."""
    DEAF = "deaf"
    """What is asked arrives, the answer does not."""


class Linked:
    """A store behind a link that may be cut."""

    def __init__(self, store: LeaseStore) -> None:
        self.store = store
        self.link = Link.UP

    async def renew(self, asked: Mapping[str, Renewal]) -> Mapping[str, Granted | None]:
        if self.link is Link.CUT:
            raise StoreAwayError("cut off")
        answers = await self.store.renew(asked)
        if self.link is Link.DEAF:
            raise StoreAwayError("no answer")
        return answers

    async def connected(self) -> frozenset[str] | None:
        if self.link is not Link.UP:
            raise StoreAwayError("cut off")
        return await self.store.connected()

    async def aclose(self) -> None:
        await self.store.aclose()


class Gateway:
    """`taken` seats are in use in the engine; `waiting` requests would have one each, but the first
    needs `widest`."""

    def __init__(self, name: str, store: LeaseStore, clock: Clock, most: int) -> None:
        self.name = name
        self.linked = Linked(store)
        self.is_stopped = False
        self.taken = 0
        self.waiting = 0
        self.widest = 1
        self._clock = clock
        self._waits_since = clock.now
        self.keeper = LeaseKeeper(self.linked, name, self._demand, self._grant, clock)
        self.limit = self.keeper.lease(ENGINE, most)

    def wait_for(self, requests: int, widest: int = 1) -> None:
        if not self.waiting:
            self._waits_since = self._clock.now
        self.waiting, self.widest = requests, widest
        self._grant()

    def end(self, seats: int) -> None:
        self.taken -= min(seats, self.taken)
        self._grant()

    async def renew(self) -> None:
        await self.keeper.renew()
        self._grant()

    def _demand(self, _engine: str) -> Demand:
        if not self.waiting:
            return Demand(self.taken, 0, 0, 0.0)
        waited_s = self._clock.now - self._waits_since
        return Demand(self.taken, self.waiting - 1 + self.widest, self.widest, waited_s)

    def _grant(self) -> None:
        while self.waiting:
            seats = min(self.widest, self.limit.ceiling)
            if self.taken + seats > self.limit.seats:
                return
            self.taken += seats
            self.waiting -= 1
            self.widest = 1
            self._waits_since = self._clock.now


@dataclass
class World:
    """`new_store` gives the store as a gateway of that name reaches it; `died` hears of its end."""

    new_store: Callable[[str], LeaseStore]
    clock: Clock
    limit: int
    died: Callable[[str], None] = lambda _: None
    gateways: list[Gateway] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def join(self, most: int | None = None) -> Gateway:
        name = f"{next(self.numbers):08x}"
        gateway = Gateway(name, self.new_store(name), self.clock, most or self.limit)
        self.gateways.append(gateway)
        return gateway

    @property
    def taken(self) -> int:
        return sum(gateway.taken for gateway in self.gateways)

    async def kill(self, gateway: Gateway) -> None:
        """Its requests end with it, and the kernel closes its connections."""
        self.gateways.remove(gateway)
        self.died(gateway.name)
        await gateway.linked.aclose()

    async def renew(self) -> None:
        for gateway in self.gateways:
            if not gateway.is_stopped:
                await gateway.renew()

    async def pass_time(self, seconds: float) -> None:
        """Everybody who can renews as often as gateways do."""
        for _ in range(round(seconds / RENEWS_EVERY_S)):
            self.clock.now += RENEWS_EVERY_S
            await self.renew()

    async def close(self) -> None:
        for gateway in self.gateways:
            await gateway.linked.aclose()

"""Gateways as processes of their own that share the limit of one engine through a real Redis.

The engine counts what is in it at every moment. Clients never leave early: a request that its
gateway gave up a moment ago would still be counted there when the next one arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.gateway_process import GatewayProcess, gateway
from tests.support.raw_client import ask_once, request_bytes
from tests.support.redis_server import RedisServer, running_redis
from tests.support.relay import Relay
from tests.support.scripted_upstream import ScriptedUpstream, empty_ok, not_found

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.scripted_exchange import Exchange

LIMIT = 32
# Long beside the time between an answer and the next request's arrival, which is the machine's.
HOLD_S = (0.5, 1.5)
PROBES = {b"/health": empty_ok, b"/metrics": not_found, b"/v1/models": not_found}


@dataclass(eq=False)
class Member:
    """A gateway, and its link to the store. `running`: its requests that are in the engine."""

    name: str
    gateway: GatewayProcess
    link: Relay
    cluster: Cluster

    @property
    def running(self) -> int:
        return self.cluster.running[self.name]

    async def holds(self) -> Holding:
        page = await self.gateway.metrics()
        values: Counter[str] = Counter()
        for (name, _), value in page.items():
            values[name] += int(value)
        return Holding(
            values["sluice_leased_seats"], values["sluice_in_flight"], values["sluice_queue_depth"]
        )


@dataclass(frozen=True)
class Holding:
    """What a gateway says of itself."""

    leased: int
    granted: int
    waiting: int


@dataclass(frozen=True)
class Use:
    """On average: `granted` as the gateways say, which has in it the time from a grant to the
    engine; `in_engine` as the engine says. `last` is one look at the gateways."""

    granted: float
    in_engine: float
    last: tuple[Holding, ...]


@dataclass
class Cluster:
    """`members` are those that are neither dead nor stopped. `running` counts what is in the engine
    by the member that sent it."""

    redis: RedisServer
    stack: AsyncExitStack
    clients: int
    rng: random.Random = field(default_factory=lambda: random.Random(6))
    members: list[Member] = field(default_factory=list)
    stopped: list[Member] = field(default_factory=list)
    running: Counter[str] = field(default_factory=Counter)
    served: int = 0
    refused: int = 0
    asking: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.engine = ScriptedUpstream(self._generate, probes=PROBES)

    async def _generate(self, exchange: Exchange) -> None:
        name = (exchange.request.header(b"x-member") or b"").decode()
        self.running[name] += 1
        try:
            await asyncio.sleep(self.rng.uniform(*HOLD_S))
        finally:
            self.running[name] -= 1
        exchange.respond(b'{"choices": []}', 200)

    async def join(self) -> Member:
        link = await self.stack.enter_async_context(Relay(self.redis.port))
        started = await self.stack.enter_async_context(
            gateway(
                self.engine.url,
                max_in_flight=LIMIT,
                max_queue_depth=self.clients,
                queue_timeout=300,
                redis_url=f"redis://127.0.0.1:{link.port}/0",
                wait_until_ready=False,  # it is not while the store is away
            )
        )
        member = Member(f"{started.pid}", started, link, self)
        self.members.append(member)
        return member

    async def kill(self, one: Member) -> None:
        self.members.remove(one)
        one.gateway.process.kill()
        await one.gateway.process.wait()

    def stop(self, one: Member) -> None:
        self.members.remove(one)
        self.stopped.append(one)
        one.gateway.process.send_signal(signal.SIGSTOP)

    def go_on(self, one: Member) -> None:
        one.gateway.process.send_signal(signal.SIGCONT)
        self.stopped.remove(one)
        self.members.append(one)

    async def restore(self, gateways: int) -> None:
        """Nothing is asked or cut, and so many gateways know of each other."""
        await self.cut_load()
        if self.redis.process is None:
            self.redis.start()
        self.redis.resume()
        for one in list(self.stopped):
            self.go_on(one)
        for one in self.members:
            one.link.mend()
        await asyncio.gather(*(self.join() for _ in range(gateways - len(self.members))))
        for one in self.members:
            await one.gateway.until_metric("sluice_gateways", gateways, within_s=20)
            await one.gateway.until_metric("sluice_store_up", 1)
            await one.gateway.until_idle(within_s=10)
        await self.engine.until(lambda: self.engine.inflight == 0)
        self.engine.forget()

    def begin_load(self, *members: Member) -> None:
        """Every client asks again and again, each any of these members, or any at all."""
        for _ in range(self.clients):
            self.asking.add(asyncio.create_task(self._ask_on(members)))

    async def end_load(self) -> None:
        """When each has its answer."""
        tasks, self.asking = self.asking, set()
        await asyncio.gather(*tasks)

    async def cut_load(self) -> None:
        tasks, self.asking = self.asking, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_on(self, members: tuple[Member, ...]) -> None:
        while asyncio.current_task() in self.asking:
            one = self.rng.choice(members or self.members)
            data = request_bytes(headers={"Connection": "close", "x-member": one.name})
            try:
                answer = await ask_once(one.gateway.port, data)
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.05)
                continue
            if answer.status == 200:
                self.served += 1
            else:
                self.refused += 1
                await asyncio.sleep(0.05)

    async def use(self, seconds: float) -> Use:
        """Looked at often."""
        loop = asyncio.get_running_loop()
        ends, looks, granted = loop.time() + seconds, [], []
        while loop.time() < ends:
            last = await asyncio.gather(*(one.holds() for one in self.members))
            granted.append(sum(one.granted for one in last))
            for _ in range(5):
                looks.append(self.engine.inflight)
                await asyncio.sleep(0.02)
        return Use(sum(granted) / len(granted), sum(looks) / len(looks), tuple(last))

    async def until_used(self, seats: float, within_s: float) -> float:
        """How many seconds it took until so many seats were in use."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self.engine.inflight < seats:
            waited_s = loop.time() - began
            assert waited_s < within_s, (
                f"{self.engine.inflight} seats in use after {waited_s:.1f} s"
            )
            await asyncio.sleep(0.01)
        return loop.time() - began


@contextlib.asynccontextmanager
async def sharing_cluster(directory: Path, gateways: int, clients: int) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(running_redis(directory))
        made = Cluster(redis, stack, clients)
        await stack.enter_async_context(made.engine)
        await asyncio.gather(*(made.join() for _ in range(gateways)))
        try:
            yield made
        finally:
            await made.cut_load()
            for one in made.stopped:
                with contextlib.suppress(ProcessLookupError):
                    one.gateway.process.send_signal(signal.SIGCONT)

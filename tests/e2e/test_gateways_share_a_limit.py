"""Four gateways, one engine, one limit, a real Redis; and what may befall them.

The engine counts what is in it at every moment. Its clients never leave early: a request that its
gateway gave up a moment ago would still be counted there when the next one arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.support.gateway_process import GatewayProcess, gateway
from tests.support.raw_client import ask_once, request_bytes
from tests.support.redis_server import RedisServer, running_redis
from tests.support.scripted_upstream import ScriptedUpstream, empty_ok, not_found

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from tests.support.scripted_exchange import Exchange

LIMIT = 32
GATEWAYS = 4
CLIENTS = 80
HOLD_S = (0.2, 0.6)
CHAOS_S = float(os.environ.get("SLUICE_TEST_CHAOS_S", "24"))
STOPPED_S = 8.0
PROBES = {b"/health": empty_ok, b"/metrics": not_found, b"/v1/models": not_found}

pytestmark = [
    pytest.mark.alone("processes are killed and stopped, and seconds are counted"),
    pytest.mark.slow,
]


@dataclass
class Cluster:
    """Gateways in front of `engine`, whose seats are watched."""

    engine: ScriptedUpstream
    redis: RedisServer
    stack: AsyncExitStack
    rng: random.Random = field(default_factory=lambda: random.Random(6))
    gateways: list[GatewayProcess] = field(default_factory=list)
    served: int = 0
    refused: int = 0
    asking: set[asyncio.Task[None]] = field(default_factory=set)

    async def start_gateway(self, **settings: object) -> GatewayProcess:
        started = await self.stack.enter_async_context(
            gateway(
                self.engine.url,
                max_in_flight=LIMIT,
                max_queue_depth=CLIENTS,
                queue_timeout=30,
                redis_url=self.redis.url,
                **settings,
            )
        )
        self.gateways.append(started)
        return started

    async def kill(self, one: GatewayProcess) -> None:
        self.gateways.remove(one)
        one.process.kill()
        await one.process.wait()

    def begin_load(self, clients: int, *gateways: GatewayProcess) -> None:
        """So many clients ask again and again, each any of `gateways`, or any at all."""
        for _ in range(clients):
            self.asking.add(asyncio.create_task(self._ask_on(gateways)))

    async def end_load(self) -> None:
        """When each has its answer."""
        tasks, self.asking = self.asking, set()
        await asyncio.gather(*tasks)

    async def cut_load(self) -> None:
        for task in self.asking:
            task.cancel()
        await asyncio.gather(*self.asking, return_exceptions=True)

    async def _ask_on(self, gateways: tuple[GatewayProcess, ...]) -> None:
        data = request_bytes(headers={"Connection": "close"})
        while asyncio.current_task() in self.asking:
            one = self.rng.choice(gateways or self.gateways)
            try:
                answer = await ask_once(one.port, data)
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0.05)
                continue
            if answer.status == 200:
                self.served += 1
            else:
                self.refused += 1
                await asyncio.sleep(0.05)

    async def seats_used(self, seconds: float) -> float:
        """On average, looked at often."""
        looks = []
        for _ in range(round(seconds / 0.02)):
            await asyncio.sleep(0.02)
            looks.append(self.engine.inflight)
        return sum(looks) / len(looks)

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


async def _generate(exchange: Exchange) -> None:
    await asyncio.sleep(random.uniform(*HOLD_S))
    exchange.respond(b'{"choices": []}', 200)


@contextlib.asynccontextmanager
async def cluster(directory: Path, gateways: int = GATEWAYS) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(running_redis(directory))
        engine = await stack.enter_async_context(ScriptedUpstream(_generate, probes=PROBES))
        made = Cluster(engine, redis, stack)
        await asyncio.gather(*(made.start_gateway() for _ in range(gateways)))
        try:
            yield made
        finally:
            await made.cut_load()
            for one in made.gateways:
                with contextlib.suppress(ProcessLookupError):
                    one.process.send_signal(signal.SIGCONT)


def in_a_cluster(directory: Path, scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        async with cluster(directory) as made:
            await scenario(made)
            assert made.engine.peak <= LIMIT

    asyncio.run(main())


@pytest.mark.timeout(60)
def test_all_seats_are_used_and_those_of_a_killed_gateway_are_back_within_6_seconds(
    tmp_path: Path,
) -> None:
    async def scenario(made: Cluster) -> None:
        made.begin_load(CLIENTS)
        await made.until_used(LIMIT, within_s=8)
        assert await made.seats_used(3) >= 0.95 * LIMIT
        await made.kill(made.gateways[0])
        await made.until_used(LIMIT, within_s=6)
        assert await made.seats_used(2) >= 0.95 * LIMIT
        # All of them at one gateway, which the others leave their seats to.
        await made.end_load()
        made.begin_load(CLIENTS, made.gateways[0])
        await made.until_used(LIMIT, within_s=3)
        assert await made.seats_used(2) >= 0.95 * LIMIT

    in_a_cluster(tmp_path, scenario)


@pytest.mark.timeout(CHAOS_S + 60)
def test_whatever_is_killed_stopped_and_restarted_the_limit_holds(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        made.begin_load(CLIENTS)
        await made.until_used(LIMIT, within_s=8)
        loop = asyncio.get_running_loop()
        ends = loop.time() + CHAOS_S
        stopped: list[asyncio.Task[None]] = []
        events = [_kill, _stop, _restart_store, _silence_store]
        number = 0
        while loop.time() < ends:
            event = events[number] if number < len(events) else made.rng.choice(events)
            number += 1
            stopped += await event(made)
            await asyncio.sleep(made.rng.uniform(0.5, 3.0))
        await asyncio.gather(*stopped)
        served = made.served
        await made.until_used(LIMIT, within_s=20)
        assert await made.seats_used(3) >= 0.95 * LIMIT
        assert made.served > served

    in_a_cluster(tmp_path, scenario)


async def _kill(made: Cluster) -> list[asyncio.Task[None]]:
    await made.kill(made.rng.choice(made.gateways))
    await made.start_gateway()
    return []


async def _stop(made: Cluster) -> list[asyncio.Task[None]]:
    one = made.rng.choice(made.gateways)
    made.gateways.remove(one)
    one.process.send_signal(signal.SIGSTOP)

    async def go_on() -> None:
        await asyncio.sleep(STOPPED_S)
        one.process.send_signal(signal.SIGCONT)
        made.gateways.append(one)

    return [asyncio.create_task(go_on())]


async def _restart_store(made: Cluster) -> list[asyncio.Task[None]]:
    made.redis.stop()
    await asyncio.sleep(made.rng.uniform(0.0, 3.0))
    await asyncio.to_thread(made.redis.start)
    return []


async def _silence_store(made: Cluster) -> list[asyncio.Task[None]]:
    made.redis.pause()
    await asyncio.sleep(made.rng.uniform(0.5, 4.0))
    made.redis.resume()
    return []


@pytest.mark.timeout(60)
def test_without_the_store_traffic_goes_on_and_metrics_and_log_say_so(tmp_path: Path) -> None:
    async def scenario(made: Cluster) -> None:
        made.begin_load(CLIENTS)
        await made.until_used(LIMIT, within_s=8)
        made.redis.stop()
        one = made.gateways[0]
        await one.until_metric("sluice_store_up", 0)
        await asyncio.sleep(4)
        assert await made.seats_used(2) >= 0.8 * LIMIT
        assert any("the store of the shared limit is lost" in line for line in one.log)
        made.redis.start()
        await one.until_metric("sluice_store_up", 1)
        await one.until_metric("sluice_gateways", GATEWAYS)
        await made.until_used(LIMIT, within_s=8)

    in_a_cluster(tmp_path, scenario)

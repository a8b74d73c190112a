"""Three times the load that the engine can carry, from clients that give up early and try again.

Without a limit in front, the engine works on requests whose clients have gone, their retries come
on top, and goodput collapses long before the load is over and long after. Here the gateway stands
before the simulated engine: most of the capacity goes on being useful, and when the load is over
so is the trouble.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from proxy.simulator.step_cost import StepCost
from tests.support.asgi_transport import NoResponseError
from tests.support.gateway_in_memory import gateway, leave
from tests.support.simulated_server import simulated
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.gateway_in_memory import Sluice
    from tests.support.simulated_server import Simulated

SEATS = 4
PATIENCE_S = 2.0
RETRIES = 3
STORM_S = 180.0
# 16 steps of some 50 ms each: a request takes 0.8 s, and 4 at once are 5 a second.
TOKENS = 16
BODY = {"prompt": "x", "max_tokens": TOKENS, "ignore_eos": True}
SLOW_STEPS = StepCost(base_s=0.05)
FINISHED = 'vllm:request_success_total{engine="0",model_name="simulated",finished_reason="length"}'


@dataclass
class Clients:
    """Each asks, waits `PATIENCE_S`, and tries again up to `RETRIES` times.

    `obedient` ones wait as long as they are told to before they do, and do not come back when they
    are told not to; others do what SDKs do without such headers. `served` has the moments at which
    somebody got the answer.
    """

    sluice: Sluice
    obedient: bool
    dice: random.Random = field(default_factory=lambda: random.Random(7))
    first_tries: int = 0
    retries: int = 0
    served: list[float] = field(default_factory=list)
    given_up: int = 0

    async def come(self, per_s: float, for_s: float) -> None:
        """Arrivals as they are in life: independent of each other and of how it goes."""
        end = now() + for_s
        async with asyncio.TaskGroup() as group:
            while now() < end:
                group.create_task(self._call())
                await asyncio.sleep(self.dice.expovariate(per_s))

    async def _call(self) -> None:
        for attempt in range(RETRIES + 1):
            wait_s = await self._try(attempt)
            if wait_s is None:
                return
            await asyncio.sleep(wait_s)
        self.given_up += 1

    async def _try(self, attempt: int) -> float | None:
        """Seconds to wait before the next attempt; None when there is no need for one."""
        self.first_tries += attempt == 0
        self.retries += attempt > 0
        headers = [(b"x-stainless-retry-count", b"%d" % attempt)]
        exchange = self.sluice.start(BODY, headers=headers)
        backoff_s = min(0.5 * 2**attempt, 8) * (1 - 0.25 * self.dice.random())
        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await exchange.response()
        except (TimeoutError, NoResponseError):
            exchange.disconnect()
            return backoff_s
        if answer.status == 200:
            self.served.append(now())
            return None
        if self.obedient and answer.header("x-should-retry") == "false":
            self.given_up += 1
            return None
        if self.obedient:
            return int(answer.header("retry-after-ms") or "") / 1000
        return backoff_s

    def served_between(self, start: float, end: float) -> int:
        return sum(start <= moment < end for moment in self.served)


@asynccontextmanager
async def in_front(
    max_queue_depth: int = SEATS, *, shadow: bool = False
) -> AsyncIterator[tuple[Simulated, Sluice]]:
    """The gateway in front of a simulated engine that has room for one sequence more."""
    seats = {"max_in_flight": SEATS, "max_queue_depth": max_queue_depth}
    async with (
        simulated(max_num_seqs=SEATS + 1, cost=SLOW_STEPS) as engine,
        gateway(engine.app, shadow=shadow, **seats) as sluice,
    ):
        yield engine, sluice


async def capacity_per_s(engine: Simulated) -> float:
    """Completions a second when all seats are always taken and nobody leaves."""
    began_at, rounds = now(), 10
    for _ in range(rounds):
        await asyncio.gather(*(engine.post(b"/v1/completions", BODY) for _ in range(SEATS)))
    return rounds * SEATS / (now() - began_at)


async def closed_loop_per_s(engine: Simulated, for_s: float = 60.0) -> float:
    """The same, of clients that do not begin together: each seat that comes free misses a step."""
    end = now() + for_s
    completed = 0

    async def client(late_s: float) -> None:
        nonlocal completed
        await asyncio.sleep(late_s)
        while now() < end:
            await engine.post(b"/v1/completions", BODY)
            completed += 1

    await asyncio.gather(*(client(0.23 * number) for number in range(SEATS)))
    return completed / for_s


@pytest.mark.parametrize("obedient", [True, False])
def test_a_retry_storm_costs_little_goodput_and_ends_with_the_load(obedient: bool) -> None:
    async def scenario() -> None:
        async with in_front() as (engine, sluice):
            capacity = await capacity_per_s(engine)
            finished_before = await engine.metric(FINISHED)
            began_at = now()
            storming = Clients(sluice, obedient, random.Random(7))
            storm = asyncio.create_task(storming.come(3 * capacity, STORM_S))
            await asyncio.sleep(STORM_S)
            useful = storming.served_between(began_at, now())
            assert useful >= 0.8 * capacity * STORM_S
            assert storming.given_up > 0  # it was a storm

            # The load falls to half of what the engine can do; the last of the storm still retry.
            lull = Clients(sluice, obedient, random.Random(8))
            await lull.come(0.5 * capacity, 5 + 5)
            calm = Clients(sluice, obedient, random.Random(9))
            sheds_before = sluice.sheds()
            if not obedient:  # the others may have been told to come back much later
                await storm
            await calm.come(0.5 * capacity, 60)
            assert calm.given_up == 0
            if not obedient:
                assert calm.retries == 0
                assert sluice.sheds() == sheds_before
            await storm
            await asyncio.sleep(PATIENCE_S)
            assert (sluice.in_flight, sluice.queue_depth) == (0, 0)

            finished = await engine.metric(FINISHED) - finished_before
            read = len(storming.served) + len(lull.served) + len(calm.served)
            assert finished - read <= 0.02 * finished, "work that nobody read"
            assert await engine.metric(_gauge("running")) == 0
            assert await engine.metric(_gauge("waiting")) == 0

    run(scenario())


@pytest.mark.parametrize("times", [3, 10])
def test_however_large_the_storm_few_retries_are_invited_and_nearly_all_capacity_is_useful(
    times: int,
) -> None:
    async def scenario() -> None:
        async with in_front() as (engine, sluice):
            capacity = await closed_loop_per_s(engine)
            began_at = now()
            storming = Clients(sluice, obedient=True)
            storm = asyncio.create_task(storming.come(times * capacity, STORM_S))
            await asyncio.sleep(STORM_S)
            useful = storming.served_between(began_at, now())
            assert useful >= 0.97 * capacity * STORM_S
            tries = storming.first_tries + storming.retries
            assert tries <= 1.1 * storming.first_tries
            await storm
            assert storming.retries > 0

    run(scenario())


def test_the_same_storm_without_a_limit_takes_nearly_all_of_the_goodput() -> None:
    """What the limit is worth, and that the test above can fail."""

    async def scenario() -> None:
        async with in_front(shadow=True) as (engine, sluice):
            capacity = await capacity_per_s(engine)
            storming = Clients(sluice, obedient=True)
            storm = asyncio.create_task(storming.come(3 * capacity, STORM_S / 3))
            await storm
            assert len(storming.served) < 0.2 * capacity * STORM_S / 3
            await asyncio.sleep(PATIENCE_S)

    run(scenario())


def _gauge(kind: str) -> str:
    return f'vllm:num_requests_{kind}{{engine="0",model_name="simulated"}}'


def test_the_engines_own_queue_stays_empty_while_ours_is_full() -> None:
    async def scenario() -> None:
        async with in_front(max_queue_depth=20) as (engine, sluice):
            clients = Clients(sluice, obedient=False)
            load = asyncio.create_task(clients.come(20, 30))
            deepest = 0
            async for _ in _every(0.1, 30):
                deepest = max(deepest, sluice.queue_depth)
                # A request that has just come waits for the step under way to end, not for a seat.
                waiting = await engine.metric(_gauge("waiting"))
                assert await engine.metric(_gauge("running")) + waiting <= SEATS
            await load
            assert deepest == 20
            await asyncio.sleep(PATIENCE_S)

    run(scenario())


async def _every(interval_s: float, for_s: float) -> AsyncIterator[None]:
    end = now() + for_s
    while now() < end:
        yield
        await asyncio.sleep(interval_s)


def test_clients_that_leave_free_the_engines_blocks() -> None:
    async def scenario() -> None:
        async with in_front(max_queue_depth=96) as (engine, sluice):
            long = {**BODY, "max_tokens": 2000, "stream": True}
            exchanges = [sluice.start(long) for _ in range(100)]
            await asyncio.sleep(4)
            assert await engine.metric(_gauge("running")) == SEATS
            await leave(*exchanges)
            await asyncio.sleep(0.1)
            assert await engine.metric(_gauge("running")) == 0
            usage = 'vllm:kv_cache_usage_perc{engine="0",model_name="simulated"}'
            assert await engine.metric(usage) == 0

    run(scenario())

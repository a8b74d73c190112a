"""Three simulated engines of different pace behind one gateway, in virtual time: seats are used up
wherever they are, no engine gets more than it has, and one that dies takes only its own with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING

from proxy.simulator.faults import Die
from proxy.simulator.step_cost import StepCost
from tests.support.engine_cluster import EngineCluster, with_pollers
from tests.support.gateway_in_memory import gateway
from tests.support.simulated_server import simulated
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from tests.support.gateway_in_memory import Sluice
    from tests.support.simulated_server import Simulated

SEATS = 8
STEP_S = {"a": 0.02, "b": 0.04, "c": 0.08}
CLIENTS = 60
WORK = {"prompt": "Once upon a time", "max_tokens": 20, "ignore_eos": True}


class Load:
    """Clients that ask again as soon as they are answered; `answers` counts them by status."""

    def __init__(self, sluice: Sluice, clients: int) -> None:
        self.sluice = sluice
        self.answers: Counter[int] = Counter()
        self._ends = False
        self._clients = [asyncio.create_task(self._ask_on(number)) for number in range(clients)]

    async def _ask_on(self, number: int) -> None:
        await asyncio.sleep(number / 100)
        while not self._ends:
            answer = await self.sluice.ask(WORK)
            self.answers[answer.status] += 1
            if answer.status != 200:
                await asyncio.sleep(0.5)

    async def end(self) -> None:
        self._ends = True
        await asyncio.gather(*self._clients)


@contextlib.asynccontextmanager
async def in_front_of_three(
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[tuple[Sluice, dict[str, Simulated], EngineCluster]]:
    cluster = EngineCluster(*STEP_S)
    with_pollers(cluster, monkeypatch)
    async with contextlib.AsyncExitStack() as stack:
        engines = {}
        for name, step_s in STEP_S.items():
            cost = StepCost(base_s=step_s)
            starting = simulated(max_num_seqs=SEATS + 1, cost=cost, kv_cache_tokens=100_000)
            engines[name] = await stack.enter_async_context(starting)
            cluster[name].runs(engines[name].app)
        polled = gateway(
            cluster["a"].app,
            upstream=cluster,
            upstream_urls=cluster.urls,
            poll=True,
            max_in_flight=SEATS,
            max_queue_depth=100,
            queue_timeout=60,
        )
        yield await stack.enter_async_context(polled), engines, cluster


def test_seats_are_used_up_wherever_they_are_and_none_is_taken_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with in_front_of_three(monkeypatch) as (sluice, engines, _):
            load = Load(sluice, CLIENTS)
            await asyncio.sleep(5)
            used = []
            while now() < 30:
                running = {name: one.engine.snapshot() for name, one in engines.items()}
                assert all(one.running + one.waiting <= SEATS for one in running.values())
                used.append(sum(one.running + one.waiting for one in running.values()))
                await asyncio.sleep(0.1)
            await load.end()
            assert sum(used) / len(used) > 0.95 * SEATS * len(engines)
            assert load.answers.keys() == {200}
            done = Counter(record.upstream for record in sluice.records)
            by_pace = [done[f"http://{name}.test"] for name in "abc"]
            assert by_pace == sorted(by_pace, reverse=True)
            assert by_pace[0] > 3 * by_pace[2]

    run(scenario())


def test_one_that_dies_takes_its_own_with_it_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with in_front_of_three(monkeypatch) as (sluice, engines, cluster):
            load = Load(sluice, CLIENTS)
            await asyncio.sleep(5)
            engines["b"].engine.inject(Die())
            await asyncio.sleep(10)
            lost = load.answers.total() - load.answers[200]
            assert 0 < lost <= 2 * SEATS, "those that ran there, and who came until that was seen"
            await engines["b"].engine.restart()
            served = Counter(cluster.tried)["b"]
            await asyncio.sleep(20)
            await load.end()
            assert load.answers.total() - load.answers[200] == lost
            assert Counter(cluster.tried)["b"] > served + 10 * SEATS

    run(scenario())

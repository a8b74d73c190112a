"""Clients that leave in the very moment in which something else happens to their request."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support.capacity_probe import probe_capacity
from tests.support.gateway_process import eventually, gateway
from tests.support.raw_client import RawClient, request_bytes
from tests.support.scripted_upstream import Hold, ScriptedUpstream, silent

if TYPE_CHECKING:
    from tests.support.gateway_process import GatewayProcess
    from tests.support.scripted_upstream import Exchange


def named_request(name: str, **headers: str) -> bytes:
    return request_bytes(headers={"x-client-id": name, **headers})


# A seat comes free.

WAITERS = 150
ROUNDS = 20


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_no_wake_up_is_lost_when_waiters_leave_as_a_seat_comes_free() -> None:
    """R06: whoever stays is served, and no seat is given to one that has gone for good."""

    async def scenario() -> None:
        rng = random.Random(6)
        async with (
            ScriptedUpstream() as upstream,
            gateway(
                upstream.url, max_in_flight=1, max_queue_depth=WAITERS, queue_timeout=5
            ) as sluice,
        ):
            for _ in range(ROUNDS):
                await leave_as_a_seat_comes_free(sluice, upstream, rng)
                await probe_capacity(sluice, upstream, 1)
            assert not (await sluice.outcomes())["shed"]

    asyncio.run(scenario())


async def leave_as_a_seat_comes_free(
    sluice: GatewayProcess, upstream: ScriptedUpstream, rng: random.Random
) -> None:
    upstream.handler = hold = Hold()
    clients = [await RawClient.connect(sluice.port) for _ in range(WAITERS + 1)]
    for client in clients:
        client.send(request_bytes())
    await sluice.until_metric("sluice_queue_depth", WAITERS)
    # Nobody can say who of them holds the seat, so all of them are drawn from.
    leaving = rng.sample(clients, WAITERS // 2)
    release_after = rng.randrange(len(leaving))
    for number, client in enumerate(leaving):
        client.reset()
        if number == release_after:
            hold.release()
    staying = [client for client in clients if client not in leaving]
    answers = await asyncio.gather(*(client.answer() for client in staying))
    assert {answer.status for answer in answers} == {200}
    for client in staying:
        client.close()


# A seat comes free and the patience ends.

SEATS = 8
COINCIDENCES = 60
PATIENCE_S = 0.08
JITTER_S = 0.003


@pytest.mark.alone("three things within a few milliseconds")
@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_seat_an_end_of_patience_and_a_farewell_at_once_have_one_outcome() -> None:
    """R07: no seat goes to a request that has ended, and none ends twice."""

    async def scenario() -> None:
        race = Coincidence(random.Random(7))
        async with (
            ScriptedUpstream(race.answer) as upstream,
            gateway(upstream.url, max_in_flight=SEATS, max_queue_depth=SEATS) as sluice,
        ):
            for number in range(COINCIDENCES):
                await race.run_once(sluice, upstream, number)
            await sluice.until_idle()
            await race.each_had_one_outcome(sluice, upstream)
            await probe_capacity(sluice, upstream, SEATS)

    asyncio.run(scenario())


class Coincidence:
    """As many holders of seats as waiters; the engine lets a holder go when it is told to."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._go: dict[str, asyncio.Event] = {}
        self.statuses: Counter[int] = Counter()
        self.left = 0

    async def answer(self, exchange: Exchange) -> None:
        holding = self._go.get(exchange.request.client_id or "")
        if holding is not None:
            await holding.wait()
        exchange.respond(b'{"ok": true}')

    async def run_once(
        self, sluice: GatewayProcess, upstream: ScriptedUpstream, number: int
    ) -> None:
        names = [f"holder-{number}-{seat}" for seat in range(SEATS)]
        self._go = {name: asyncio.Event() for name in names}
        holders = [await RawClient.connect(sluice.port) for _ in names]
        waiters = [await RawClient.connect(sluice.port) for _ in names]
        for holder, name in zip(holders, names, strict=True):
            holder.send(named_request(name))
        await upstream.until(lambda: upstream.inflight == SEATS)
        await asyncio.gather(
            *(self._wait_out(waiter, f"waiter-{number}-{n}") for n, waiter in enumerate(waiters)),
            *(self._let_go(name) for name in names),
        )
        for holder in holders:
            assert (await holder.answer()).status == 200
        for client in (*holders, *waiters):
            client.close()

    async def _wait_out(self, waiter: RawClient, name: str) -> None:
        waiter.send(named_request(name, **{"x-sluice-queue-timeout": str(PATIENCE_S)}))
        if self._rng.random() < 0.5:
            self.statuses[(await waiter.answer()).status] += 1
        else:
            await self._the_moment()
            waiter.reset()
            self.left += 1

    async def _let_go(self, name: str) -> None:
        await self._the_moment()
        self._go[name].set()

    async def _the_moment(self) -> None:
        await asyncio.sleep(PATIENCE_S + self._rng.uniform(-JITTER_S, JITTER_S))

    async def each_had_one_outcome(
        self, sluice: GatewayProcess, upstream: ScriptedUpstream
    ) -> None:
        waiters = SEATS * COINCIDENCES
        seen = Counter(request.client_id for request in upstream.seen)
        assert max(seen.values()) == 1
        assert self.statuses.total() + self.left == waiters
        assert set(self.statuses) == {200, 503}, "not the moment that was meant"
        outcomes = await sluice.outcomes()
        assert outcomes.total() == 2 * waiters
        assert outcomes["ok"] >= waiters + self.statuses[200]
        assert outcomes["shed"] >= self.statuses[503]
        ended = await sluice.metric("sluice_queue_wait_seconds_count")
        assert ended == 2 * waiters, "every request asked for a seat once, and heard once"


# A whole crowd leaves.

CROWD = 100


async def crowd_that_waits(sluice: GatewayProcess, upstream: ScriptedUpstream) -> list[RawClient]:
    """Half of them in the engine, half in the queue."""
    clients = [await RawClient.connect(sluice.port) for _ in range(CROWD)]
    for client in clients:
        client.send(request_bytes())
    await upstream.until(lambda: upstream.inflight == CROWD // 2)
    await sluice.until_metric("sluice_queue_depth", CROWD // 2)
    return clients


def test_a_hundred_clients_that_leave_at_once_give_a_hundred_permits_back() -> None:
    """R09: giving back neither waits for anything nor can it be cancelled."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream(silent) as upstream,
            gateway(upstream.url, max_in_flight=CROWD // 2, max_queue_depth=CROWD // 2) as sluice,
        ):
            for _ in range(3):
                for client in await crowd_that_waits(sluice, upstream):
                    client.reset()
                await sluice.until_idle()
                await probe_capacity(sluice, upstream, CROWD // 2)
            assert (await sluice.outcomes())["abandoned"] == 3 * CROWD

    asyncio.run(scenario())


def test_a_stop_right_after_a_crowd_has_left_is_a_clean_one() -> None:
    """R09: gateway() fails when the log has a traceback."""

    async def scenario() -> None:
        async with ScriptedUpstream(silent) as upstream:
            async with gateway(
                upstream.url, max_in_flight=CROWD // 2, max_queue_depth=CROWD // 2
            ) as sluice:
                for client in await crowd_that_waits(sluice, upstream):
                    client.reset()
                await asyncio.sleep(0.005)
                sluice.terminate()
                await sluice.process.wait()
            assert sluice.exit_code == 0
            assert not [line for line in sluice.log if "never" in line or "unclosed" in line]
            await eventually(lambda: upstream.connections_open == 0)
            assert upstream.inflight == 0

    asyncio.run(scenario())

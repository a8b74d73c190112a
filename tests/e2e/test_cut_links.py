"""Gateways on hosts of their own, one of which is cut off from the store, not from the engine."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.support.gateway_process import GatewayProcess, eventually, gateway
from tests.support.network_namespaces import Host, Link, hosts
from tests.support.raw_client import RawClient, request_bytes
from tests.support.redis_server import RedisServer
from tests.support.scripted_upstream import ScriptedUpstream, empty_ok, not_found

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from tests.support.scripted_exchange import Exchange

LIMIT = 8
SHARE = 4
CLIENTS = 12
HOLD_S = 0.4
PROBES = {b"/health": empty_ok, b"/metrics": not_found, b"/v1/models": not_found}

pytestmark = [
    pytest.mark.alone("links are made and cut, and seconds are counted"),
    pytest.mark.slow,
]


@dataclass
class Load:
    """What each gateway has in the engine, now and at most."""

    running: Counter[str] = field(default_factory=Counter)
    peaks: Counter[str] = field(default_factory=Counter)
    served: Counter[str] = field(default_factory=Counter)

    async def generate(self, exchange: Exchange) -> None:
        name = (exchange.request.header(b"x-gateway") or b"").decode()
        self.running[name] += 1
        self.peaks[name] = max(self.peaks[name], self.running[name])
        try:
            await asyncio.sleep(HOLD_S)
        finally:
            self.running[name] -= 1
        exchange.respond(b'{"choices": []}', 200)

    async def ask_on(self, host: Host, port: int) -> None:
        data = request_bytes(headers={"x-gateway": host.name})
        async with await RawClient.connect(port, host.address) as client:
            while True:
                assert (await client.ask(data)).status == 200
                self.served[host.name] += 1


@pytest.mark.timeout(40)
def test_a_gateway_whose_packets_to_the_store_vanish_keeps_its_share_and_no_more(
    tmp_path: Path,
) -> None:
    with hosts("store", "a", "b") as (store, *gateways):
        links = [Link(one, store) for one in gateways]
        asyncio.run(_cut_and_mend(tmp_path, store, gateways, links))


async def _cut_and_mend(
    directory: Path, store: Host, gateways: list[Host], links: list[Link]
) -> None:
    load = Load()
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(
            ScriptedUpstream(load.generate, probes=PROBES, host=store.here)
        )
        redis = RedisServer(directory, ("--protected-mode", "no"), host=store)
        redis.start()
        stack.callback(redis.stop)
        a, b = await asyncio.gather(
            *(
                stack.enter_async_context(_gateway_on(host, engine, redis, link))
                for host, link in zip(gateways, links, strict=True)
            )
        )
        await _limit_holds(load, engine, gateways, [a, b], links[0])
        assert engine.peak == LIMIT


def _gateway_on(
    host: Host, engine: ScriptedUpstream, redis: RedisServer, link: Link
) -> AbstractAsyncContextManager[GatewayProcess]:
    return gateway(
        engine.url,
        run_by=host.run_by,
        wait_until_ready=False,
        host=host.address,
        max_in_flight=LIMIT,
        max_queue_depth=CLIENTS,
        redis_url=f"redis://{link.far}:{redis.port}",
    )


async def _limit_holds(
    load: Load,
    engine: ScriptedUpstream,
    hosts: list[Host],
    processes: list[GatewayProcess],
    link: Link,
) -> None:
    (a, b), (cut_off, other) = hosts, processes
    clients = {
        host.name: [asyncio.create_task(load.ask_on(host, process.port)) for _ in range(CLIENTS)]
        for host, process in zip(hosts, processes, strict=True)
    }
    try:
        await engine.until(lambda: load.running == {a.name: SHARE, b.name: SHARE}, within_s=10)
        load.peaks.clear()
        load.served.clear()
        link.cut()
        await eventually(lambda: _said(cut_off, "store of the shared limit is lost"), 4)
        await eventually(lambda: _said(other, "its seats are kept"), 6)
        await asyncio.sleep(1)
        assert load.peaks == {a.name: SHARE, b.name: SHARE}
        assert min(load.served.values()) >= 4 * SHARE
        await _leave(clients.pop(b.name))  # also when nobody else needs them
        await asyncio.sleep(1)
        assert load.peaks[a.name] == SHARE
        link.mend()
        await engine.until(lambda: load.running[a.name] == LIMIT, within_s=8)
        assert _said(cut_off, "the store of the shared limit answers")
        assert not _said(other, "has died")
    finally:
        for tasks in clients.values():
            await _leave(tasks)


async def _leave(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(ended, asyncio.CancelledError), ended


def _said(one: GatewayProcess, words: str) -> bool:
    return any(words in line for line in one.log)

"""Engines that cannot be reached or do not answer, and clients that do not read.

Field cases R34 and R35: each of them is given up at its limit, and none blocks the others.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support.capacity_probe import probe_capacity
from tests.support.gateway_process import eventually, gateway
from tests.support.raw_client import RawClient, ask_once, request_bytes
from tests.support.scripted_upstream import ScriptedUpstream, silent, unresponsive_port

if TYPE_CHECKING:
    from tests.support.scripted_upstream import Exchange

UPSTREAM_CLIENTS = ["pool", "httpx"]
MODELS = request_bytes("/v1/models", b"", "GET")


def now() -> float:
    return asyncio.get_running_loop().time()


def test_an_unreachable_engine_is_given_up_in_time_and_found_again_at_once() -> None:
    """R34: its host drops what is sent to it, and later comes back."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(upstream.url, max_in_flight=50, connect_timeout=1, queue_timeout=1) as sluice,
        ):
            upstream.stop_listening()
            upstream.reset_all()
            async with unresponsive_port(upstream.port):
                asking = (ask_once(sluice.port, request_bytes()) for _ in range(50))
                codes = Counter(str(a.error["code"]) for a in await asyncio.gather(*asking))
                assert set(codes) <= {"upstream_connect", "upstream_unavailable"}
                assert codes["upstream_connect"] > 0
                await sluice.until_idle()
            await upstream.listen()
            back_at = now()
            while (await ask_once(sluice.port, request_bytes())).status != 200:
                assert now() < back_at + 2
                await asyncio.sleep(0.02)
            await probe_capacity(sluice, upstream, 50)

    asyncio.run(scenario())


def test_a_client_that_leaves_while_the_gateway_connects_frees_its_seat() -> None:
    """R34: the window before any engine has the request."""

    async def scenario() -> None:
        async with (
            unresponsive_port() as port,
            gateway(
                f"http://127.0.0.1:{port}",
                max_in_flight=1,
                connect_timeout=15,
                wait_until_ready=False,
            ) as sluice,
        ):
            async with await RawClient.connect(sluice.port) as client:
                client.send(request_bytes())
                await sluice.until_metric("sluice_in_flight", 1)
                await eventually(lambda: sluice.sockets_towards(port) > 0)
                client.reset()
            await sluice.until_metric("sluice_in_flight", 0, within_s=1)
            assert (await sluice.outcomes())["abandoned"] == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("upstream_client", UPSTREAM_CLIENTS)
def test_a_silent_engine_is_given_up_at_the_limit_and_blocks_nobody(upstream_client: str) -> None:
    """R35"""

    async def silent_but_lists_models(exchange: Exchange) -> None:
        if exchange.request.path == b"/v1/models":
            exchange.respond(b'{"data": []}')
        else:
            await silent(exchange)

    async def scenario() -> None:
        async with (
            ScriptedUpstream(silent_but_lists_models) as upstream,
            gateway(
                upstream.url,
                max_in_flight=2,
                first_byte_timeout=1,
                upstream_client=upstream_client,
            ) as sluice,
        ):
            clients = [await RawClient.connect(sluice.port) for _ in range(2)]
            for client in clients:
                client.send(request_bytes())
            await upstream.until(lambda: upstream.inflight == 2)
            assert (await ask_once(sluice.port, MODELS)).status == 200
            for client in clients:
                answer = await client.answer()
                assert (answer.status, answer.error["code"]) == (504, "upstream_timeout")
                client.close()
            await upstream.until(lambda: upstream.aborts == 2)
            worked_s = [r.ended_at - r.at for r in upstream.seen if r.aborted and r.ended_at]
            assert 0.9 < min(worked_s) <= max(worked_s) < 3
            await probe_capacity(sluice, upstream, 2)

    asyncio.run(scenario())


def test_a_client_that_does_not_read_is_dropped_at_the_limit_and_not_before() -> None:
    """R35, the other end: it can keep a seat and an engine for no longer."""

    async def flood(exchange: Exchange) -> None:
        exchange.start_chunked()
        while True:
            exchange.chunk(b"x" * 65_536)
            await exchange.drain()

    async def scenario() -> None:
        async with (
            ScriptedUpstream(flood) as upstream,
            gateway(upstream.url, max_in_flight=1, write_timeout=3) as sluice,
            await RawClient.connect(sluice.port) as client,
        ):
            client.send(request_bytes())
            await upstream.until(lambda: upstream.aborts == 1, within_s=10)
            request = upstream.seen[0]
            assert request.ended_at is not None
            assert 2.5 < request.ended_at - request.at < 8
            client.reset()
            await probe_capacity(sluice, upstream, 1)
            assert (await sluice.outcomes())["abandoned"] == 1

    asyncio.run(scenario())

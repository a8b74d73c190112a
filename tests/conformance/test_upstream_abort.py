"""Leaving an exchange closes its connection at once: that is what makes the engine abort."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING

import pytest

from proxy.upstream.errors import UpstreamClosedError, UpstreamConnectError, UpstreamError
from tests.support.scripted_upstream import (
    Exchange,
    ScriptedUpstream,
    json_answer,
    silent,
    sse_stream,
)
from tests.support.tls import tls_pair
from tests.support.upstream_clients import ask, every_client, fetch

if TYPE_CHECKING:
    from proxy.upstream.port import Upstream
    from tests.support.scripted_answers import Handler
    from tests.support.upstream_clients import UpstreamClient

# The promise is 100 ms; the rest is for a machine on which everything else runs as well.
AT_ONCE_S = 0.5
TLS = tls_pair()


async def flood(exchange: Exchange) -> None:
    """More than fits into all the buffers on the way."""
    exchange.start_chunked()
    for _ in range(1000):
        exchange.chunk(b"x" * 65_536)
        await exchange.drain()
    exchange.end_chunked()


async def starts(exchange: Exchange) -> None:
    """One event, and then nothing."""
    exchange.start_chunked()
    exchange.chunk(b'data: {"n": 0}\n\n')
    await silent(exchange)


async def takes_nothing(exchange: Exchange) -> None:
    """Reads no body, and looks again only after a while."""
    exchange.stop_reading()
    await asyncio.sleep(0.05)
    exchange.read_on()
    await silent(exchange)


async def start_reading(upstream: Upstream, started: asyncio.Event) -> None:
    async with upstream.exchange(ask()) as response:
        await response.read()
        started.set()
        await response.read()
        await asyncio.Event().wait()


@every_client
@pytest.mark.parametrize("handler", [starts, flood], ids=["idle", "data-unread"])
@pytest.mark.parametrize("secure", [False, True], ids=["tcp", "tls"])
def test_leaving_early_closes_the_connection_at_once(
    client: UpstreamClient, handler: Handler, secure: bool
) -> None:
    async def scenario() -> None:
        engine = ScriptedUpstream(handler, tls=TLS.server if secure else None)
        async with client.facing(engine, tls=TLS.client) as (_, upstream):
            async with upstream.exchange(ask()) as response:
                assert await response.read()
            await engine.until(lambda: engine.aborts == 1, within_s=AT_ONCE_S)

    client.run(scenario())


@every_client
def test_leaving_with_a_full_buffer_closes_the_connection_at_once(client: UpstreamClient) -> None:
    """Reading is paused then, and a paused transport notices nothing by itself."""

    async def scenario() -> None:
        async with client.facing(ScriptedUpstream(flood)) as (engine, upstream):
            async with upstream.exchange(ask()):
                await asyncio.sleep(0.1)
            await engine.until(lambda: engine.aborts == 1, within_s=AT_ONCE_S)

    client.run(scenario())


@every_client
def test_leaving_by_an_exception_passes_it_on(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream(starts)) as (engine, upstream):
            with pytest.raises(LookupError):
                async with upstream.exchange(ask()):
                    raise LookupError
            await engine.until(lambda: engine.aborts == 1, within_s=AT_ONCE_S)

    client.run(scenario())


@every_client
@pytest.mark.parametrize("secure", [False, True], ids=["tcp", "tls"])
@pytest.mark.parametrize("handler", [silent, starts, flood], ids=["head", "body", "flow"])
def test_a_cancelled_exchange_closes_its_connection_at_once(
    client: UpstreamClient, handler: Handler, secure: bool
) -> None:
    async def scenario() -> None:
        engine = ScriptedUpstream(handler, tls=TLS.server if secure else None)
        async with client.facing(engine, tls=TLS.client) as (_, upstream):
            started = asyncio.Event()
            task = asyncio.create_task(start_reading(upstream, started))
            await engine.until(lambda: engine.inflight == 1)
            if handler is not silent:
                await started.wait()
            task.cancel()
            await engine.until(lambda: engine.aborts == 1, within_s=AT_ONCE_S)
            await asyncio.wait([task], timeout=AT_ONCE_S)  # the engine may know before it does
            assert task.cancelled()

    client.run(scenario())


@every_client
def test_an_exchange_cancelled_while_it_sends_closes_its_connection(client: UpstreamClient) -> None:
    async def scenario() -> None:
        engine = ScriptedUpstream(takes_nothing, early=True)
        async with client.facing(engine) as (_, upstream):
            task = asyncio.create_task(fetch(upstream, ask(body=b"x" * 30_000_000)))
            await engine.until(lambda: engine.inflight == 1)
            task.cancel()
            await engine.until(lambda: engine.aborts == 1, within_s=1)
            await asyncio.wait([task], timeout=AT_ONCE_S)
            assert task.cancelled()

    client.run(scenario())


@every_client
def test_a_second_cancellation_leaves_no_connection_open(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream(flood)) as (engine, upstream):
            for turns in range(6):
                started = asyncio.Event()
                task = asyncio.create_task(start_reading(upstream, started))
                await started.wait()
                task.cancel()
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                await engine.until(lambda: engine.connections_open == 0, within_s=AT_ONCE_S)

    client.run(scenario())


HANDLERS: dict[str, Handler] = {
    "held": silent,
    "answered": json_answer(),
    "streamed": sse_stream(5),
    "flooded": flood,
}


@every_client
@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
@pytest.mark.parametrize("connection", ["fresh", "reused", "tls"])
def test_an_exchange_may_be_cancelled_at_every_step(
    client: UpstreamClient, handler: Handler, connection: str
) -> None:
    """Each step of the loop is tried; nothing leaks, and the next request is served."""

    async def scenario() -> None:
        engine = ScriptedUpstream(tls=TLS.server if connection == "tls" else None)
        async with client.facing(engine, tls=TLS.client) as (_, upstream):
            for steps in range(40):
                engine.handler = json_answer()
                if connection == "reused":
                    await fetch(upstream)
                engine.handler = handler
                task = asyncio.create_task(fetch(upstream))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                await engine.until(lambda: engine.inflight == 0, within_s=AT_ONCE_S)
                await engine.until(lambda: engine.connections_open <= 1, within_s=AT_ONCE_S)
            engine.handler = json_answer()
            assert (await fetch(upstream)).status == 200

    client.run(scenario())


@every_client
def test_a_burst_of_aborts_leaves_the_pool_as_good_as_new(client: UpstreamClient) -> None:
    """R32: httpx users know this as a PoolTimeout that lasts until the restart."""
    dice = random.Random(7)

    async def leaves_soon(upstream: Upstream) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(dice.random() * 0.01):
                await fetch(upstream)

    async def scenario() -> None:
        async with client.facing(ScriptedUpstream(sse_stream(3, 0.002))) as (engine, upstream):
            for _ in range(8):
                await asyncio.gather(*(leaves_soon(upstream) for _ in range(20)))
            await engine.until(lambda: engine.inflight == 0)
            opened = engine.connections_open
            answers = await asyncio.gather(*(fetch(upstream) for _ in range(20)))
            assert {answer.status for answer in answers} == {200}
            assert engine.connections_open <= max(opened, 20)

    client.run(scenario())


# Closing the whole client.


@every_client
def test_closing_the_client_ends_the_exchanges_under_way(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream(starts)) as (engine, upstream):
            started = asyncio.Event()
            reading = asyncio.create_task(start_reading(upstream, started))
            await started.wait()
            engine.handler = silent
            waiting = asyncio.create_task(fetch(upstream))
            await engine.until(lambda: engine.inflight == 2)
            await upstream.aclose()
            await engine.until(lambda: engine.aborts == 2, within_s=AT_ONCE_S)
            for task in (reading, waiting):
                with pytest.raises(UpstreamClosedError):
                    await task

    client.run(scenario())


@every_client
def test_a_closed_client_sends_nothing(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream()) as (engine, upstream):
            await upstream.aclose()
            with pytest.raises(UpstreamConnectError):
                await fetch(upstream)
            await upstream.aclose()
            assert engine.seen == []

    client.run(scenario())


@every_client
def test_a_response_cannot_be_read_after_its_exchange(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream()) as (_, upstream):
            async with upstream.exchange(ask()) as response:
                await response.read()
            with pytest.raises(RuntimeError):
                await response.read()

    client.run(scenario())


@every_client
def test_an_engine_that_is_killed_ends_every_exchange(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream(starts)) as (engine, upstream):
            tasks = [asyncio.create_task(fetch(upstream)) for _ in range(20)]
            await engine.until(lambda: engine.inflight == 20)
            await asyncio.sleep(0.02)
            engine.reset_all()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(result, UpstreamError) for result in results)

    client.run(scenario())

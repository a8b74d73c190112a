"""Which connection carries which request, and how long one is kept."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.upstream.port import UpstreamTimeouts
from tests.support.scripted_upstream import (
    Exchange,
    Hold,
    ScriptedUpstream,
    json_answer,
    raw_answer,
    sse_stream,
)
from tests.support.tls import tls_pair
from tests.support.upstream_clients import ask, every_client, every_client_but, fetch

if TYPE_CHECKING:
    from proxy.upstream.port import Upstream
    from tests.support.scripted_answers import Handler
    from tests.support.upstream_clients import UpstreamClient

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def fetch_many(upstream: Upstream, count: int, concurrency: int) -> None:
    async def worker() -> None:
        for _ in range(count // concurrency):
            assert (await fetch(upstream)).status == 200

    await asyncio.gather(*(worker() for _ in range(concurrency)))


@every_client
@pytest.mark.parametrize("handler", [json_answer(), sse_stream(3)], ids=["counted", "chunked"])
@pytest.mark.parametrize("secure", [False, True], ids=["tcp", "tls"])
def test_one_request_after_another_uses_one_connection(
    client: UpstreamClient, handler: Handler, secure: bool
) -> None:
    async def scenario() -> None:
        pair = tls_pair()
        engine = ScriptedUpstream(handler, tls=pair.server if secure else None)
        async with client.facing(engine, tls=pair.client) as (_, upstream):
            for _ in range(20):
                await fetch(upstream)
            assert engine.connections_accepted == 1
            assert engine.pipelined == 0

    client.run(scenario())


@every_client
def test_there_is_no_limit_but_the_callers(client: UpstreamClient) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with client.facing(ScriptedUpstream(hold), idle_expiry_s=60) as (engine, upstream):
            held = [asyncio.create_task(fetch(upstream)) for _ in range(120)]
            await engine.until(lambda: engine.inflight == 120)
            engine.handler = json_answer()
            assert (await fetch(upstream)).status == 200  # not starved by those that are held
            hold.release()
            await asyncio.gather(*held)
            await fetch_many(upstream, 120, 120)
            assert engine.connections_accepted < 132, "the second wave opened its own connections"

    client.run(scenario())


@every_client
def test_many_short_requests_need_few_connections(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream()) as (engine, upstream):
            await fetch_many(upstream, 500, 25)
            assert engine.connections_accepted <= 50
            assert engine.pipelined == 0

    client.run(scenario())


@every_client
@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nConnection: Keep-Alive, Close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ],
    ids=["close", "among-others", "http-1.0"],
)
def test_a_connection_that_the_engine_will_close_is_not_used_again(
    client: UpstreamClient, raw: bytes
) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream(raw_answer(raw))) as (engine, upstream):
            await fetch(upstream)
            await engine.until(lambda: engine.connections_open == 0)
            await fetch(upstream)
            assert [request.connection for request in engine.seen] == [1, 2]

    client.run(scenario())


@every_client_but("reuse_unread")
def test_a_complete_response_that_nobody_read_frees_its_connection(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream()) as (engine, upstream):
            async with upstream.exchange(ask()):
                pass
            await fetch(upstream)
            assert engine.connections_accepted == 1

    client.run(scenario())


@every_client_but("surplus_is_noticed")
@pytest.mark.parametrize("surplus", [OK, b"x"], ids=["a-second-response", "garbage"])
def test_bytes_after_a_response_are_never_read_as_the_next_one(
    client: UpstreamClient, surplus: bytes
) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream(raw_answer(OK + surplus))) as (engine, upstream):
            assert (await fetch(upstream)).body == b"ok"
            engine.handler = json_answer()
            assert (await fetch(upstream)).body == b'{"ok": true}'
            assert [request.connection for request in engine.seen] == [1, 2]

    client.run(scenario())


@every_client
@pytest.mark.parametrize("unsolicited", [OK, b"HTTP/1.1 408 Request Timeout\r\n\r\n", b"\r\n"])
def test_an_idle_connection_on_which_bytes_arrive_is_not_used_again(
    client: UpstreamClient, unsolicited: bytes
) -> None:
    async def speaks_up_later(exchange: Exchange) -> None:
        exchange.send(OK)
        await asyncio.sleep(0.02)
        exchange.send(unsolicited)

    async def scenario() -> None:
        async with client.facing(ScriptedUpstream(speaks_up_later)) as (engine, upstream):
            assert (await fetch(upstream)).body == b"ok"
            await asyncio.sleep(0.06)
            engine.handler = json_answer()
            assert (await fetch(upstream)).body == b'{"ok": true}'
            assert [request.connection for request in engine.seen] == [1, 2]

    client.run(scenario())


@every_client_but("early_answers")
def test_an_answer_before_the_whole_request_was_sent_ends_the_connection(
    client: UpstreamClient,
) -> None:
    async def refuses(exchange: Exchange) -> None:
        exchange.stop_reading()
        exchange.respond(b"too large", 413)
        await asyncio.sleep(0.5)  # longer than the client would wait for us to read
        exchange.read_on()

    async def scenario() -> None:
        timeouts = UpstreamTimeouts(idle_s=0.2)
        async with client.facing(ScriptedUpstream(refuses, early=True), timeouts) as (
            engine,
            upstream,
        ):
            refusal = await fetch(upstream, ask(body=b"x" * 30_000_000))
            assert (refusal.status, refusal.body) == (413, b"too large")
            engine.handler = json_answer()
            assert (await fetch(upstream)).status == 200
            assert engine.connections_accepted == 2

    client.run(scenario())


# Idle connections.


@every_client_but("idle_timer")
def test_an_idle_connection_is_closed_in_time(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream(), idle_expiry_s=0.05) as (engine, upstream):
            await fetch_many(upstream, 5, 5)
            assert engine.connections_open > 0
            await engine.until(lambda: engine.connections_open == 0, within_s=1)

    client.run(scenario())


@every_client
def test_an_expired_connection_is_not_used_again(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream(), idle_expiry_s=0.03) as (engine, upstream):
            await fetch(upstream)
            await asyncio.sleep(0.1)
            await fetch(upstream)
            assert [request.connection for request in engine.seen] == [1, 2]

    client.run(scenario())


@every_client
def test_an_engine_that_closes_idle_connections_costs_no_request(client: UpstreamClient) -> None:
    """The keep-alive race: requests arrive around the moment at which the engine lets go."""

    async def scenario() -> None:
        async with client.facing(ScriptedUpstream(idle_close_s=0.02)) as (_, upstream):
            for step in range(80):
                await fetch(upstream)
                await asyncio.sleep(0.018 + 0.004 * (step % 9) / 8)

    client.run(scenario())


@every_client
def test_an_engine_that_closes_after_each_answer_costs_no_request(client: UpstreamClient) -> None:
    delays = iter([0, 0, 0.0002, 0.0005, 0.001, 0.002] * 100)

    async def answers_and_closes(exchange: Exchange) -> None:
        exchange.respond(b"ok")
        delay = next(delays)
        if delay:
            await asyncio.sleep(delay)
        exchange.close()

    async def scenario() -> None:
        async with client.facing(ScriptedUpstream(answers_and_closes)) as (_, upstream):
            for _ in range(200):
                assert (await fetch(upstream)).body == b"ok"

    client.run(scenario())

"""Every silence has its limit, and no limit cuts what flows."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from proxy.upstream import late_expiry, lazy_deadline
from proxy.upstream.errors import UpstreamConnectError, UpstreamTimeoutError
from proxy.upstream.port import UpstreamTimeouts
from tests.support.scripted_upstream import (
    Exchange,
    ScriptedUpstream,
    head,
    json_answer,
    raw_answer,
    silent,
    sse_stream,
    unresponsive_port,
)
from tests.support.upstream_clients import ask, every_client, every_client_but, fetch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from proxy.upstream.port import Upstream
    from tests.support.scripted_answers import Handler
    from tests.support.upstream_clients import UpstreamClient

LIMIT_S = 0.15
# One scheduling hiccup of a busy machine; the timeouts that are not under test are far above it.
SLACK_S = 2.0


async def fails_in_time(
    facing: AbstractAsyncContextManager[tuple[ScriptedUpstream, Upstream]],
    said: str,
    fetched: Callable[[Upstream], Awaitable[object]] = fetch,
    *,
    is_ours: bool = False,
) -> None:
    """It times out, at the limit and not before; the engine is told; the next one works."""
    async with facing as (engine, upstream):
        loop = asyncio.get_running_loop()
        started = loop.time()
        with pytest.raises(UpstreamTimeoutError, match=said) as caught:
            await fetched(upstream)
        assert LIMIT_S - 0.005 <= loop.time() - started < LIMIT_S + SLACK_S
        assert "127.0.0.1" in str(caught.value)
        assert caught.value.is_ours == is_ours
        await engine.until(lambda: engine.aborts == 1)
        assert len(engine.seen) == 1
        engine.handler, engine.early = json_answer(), False
        assert (await fetch(upstream)).status == 200


@every_client
def test_a_silent_engine_is_given_up_at_the_first_byte_timeout(client: UpstreamClient) -> None:
    facing = client.facing(ScriptedUpstream(silent), UpstreamTimeouts(first_byte_s=LIMIT_S))
    client.run(fails_in_time(facing, "did not answer within 0.15 s"))


@every_client
def test_interim_answers_do_not_stop_the_first_byte_timeout(client: UpstreamClient) -> None:
    async def processing(exchange: Exchange) -> None:
        while True:
            exchange.send(b"HTTP/1.1 102 Processing\r\n\r\n")
            await asyncio.sleep(0.02)

    facing = client.facing(ScriptedUpstream(processing), UpstreamTimeouts(first_byte_s=LIMIT_S))
    client.run(fails_in_time(facing, "did not answer within 0.15 s"))


@every_client_but("idle_in_head")
def test_a_head_that_breaks_off_is_given_up_at_the_idle_timeout(client: UpstreamClient) -> None:
    handler = raw_answer(b"HTTP/1.1 200 OK\r\ncontent-le", then="hold")
    timeouts = UpstreamTimeouts(idle_s=LIMIT_S, first_byte_s=1)
    facing = client.facing(ScriptedUpstream(handler), timeouts)
    client.run(fails_in_time(facing, "fell silent for 0.15 s"))


@every_client
@pytest.mark.parametrize(
    "raw",
    [
        head(200, [("content-length", "5")]),
        head(200, [("content-length", "5")]) + b"abc",
        head(200, [("transfer-encoding", "chunked")]) + b"5\r\nhello\r\n",
        head(200, []) + b"until the end",
    ],
    ids=["no-body", "counted", "chunked", "close-delimited"],
)
def test_a_body_that_falls_silent_is_given_up_at_the_idle_timeout(
    client: UpstreamClient, raw: bytes
) -> None:
    timeouts = UpstreamTimeouts(idle_s=LIMIT_S, first_byte_s=600)
    facing = client.facing(ScriptedUpstream(raw_answer(raw, then="hold")), timeouts)
    client.run(fails_in_time(facing, "fell silent for 0.15 s"))


@every_client
def test_a_body_that_fell_silent_stays_broken(client: UpstreamClient) -> None:
    """Reading once more must not make it look complete."""
    raw = head(200, [("content-length", "5")]) + b"abc"

    async def scenario() -> None:
        engine = ScriptedUpstream(raw_answer(raw, then="hold"))
        async with (
            client.facing(engine, UpstreamTimeouts(idle_s=LIMIT_S)) as (_, upstream),
            upstream.exchange(ask()) as response,
        ):
            assert await response.read() == b"abc"
            for _ in range(3):
                with pytest.raises(UpstreamTimeoutError):
                    await response.read()

    client.run(scenario())


@every_client
def test_what_came_while_the_gateway_was_held_up_came_in_time(
    client: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the socket when the loop goes on, and finds its limits overdue."""
    for module in (late_expiry, lazy_deadline):
        monkeypatch.setattr(module, "LATE_S", LIMIT_S / 3)

    async def answers(exchange: Exchange) -> None:
        exchange.start_chunked()
        held_up()
        await asyncio.sleep(0.01)
        exchange.chunk(b"hello")
        held_up()
        exchange.end_chunked()

    def held_up() -> None:
        time.sleep(2 * LIMIT_S)

    async def scenario() -> None:
        timeouts = UpstreamTimeouts(first_byte_s=LIMIT_S, idle_s=LIMIT_S)
        async with client.facing(ScriptedUpstream(answers), timeouts) as (_, upstream):
            assert (await fetch(upstream)).body == b"hello"

    client.run(scenario())


@every_client
@pytest.mark.parametrize("handler", [sse_stream(1000, 0.01), silent], ids=["flowing", "silent"])
def test_the_total_timeout_ends_even_a_flowing_answer_and_blames_no_engine(
    client: UpstreamClient, handler: Handler
) -> None:
    facing = client.facing(ScriptedUpstream(handler), UpstreamTimeouts(total_s=LIMIT_S))
    client.run(fails_in_time(facing, "longer than 0.15 s", is_ours=True))


@every_client
def test_the_total_timeout_ends_the_wait_for_a_client_that_does_not_read(
    client: UpstreamClient,
) -> None:
    async def passed_to_nobody(upstream: Upstream) -> None:
        async def room() -> None:
            await asyncio.Event().wait()

        async with upstream.exchange(ask()) as response:
            await response.pass_to(lambda _data, _is_last: False, room)

    timeouts = UpstreamTimeouts(total_s=LIMIT_S)
    facing = client.facing(ScriptedUpstream(sse_stream(1000, 0.01)), timeouts)
    client.run(fails_in_time(facing, "longer than 0.15 s", passed_to_nobody, is_ours=True))


@every_client
def test_a_flowing_answer_outlives_every_timeout_but_the_total(client: UpstreamClient) -> None:
    async def scenario() -> None:
        timeouts = UpstreamTimeouts(first_byte_s=0.3, idle_s=0.3, connect_s=0.3)
        engine = ScriptedUpstream(sse_stream(24, 0.05))
        async with client.facing(engine, timeouts) as (_, upstream):
            assert (await fetch(upstream)).body.endswith(b"[DONE]\n\n")

    client.run(scenario())


@every_client
def test_a_slow_consumer_is_not_held_against_the_engine(client: UpstreamClient) -> None:
    async def scenario() -> None:
        timeouts = UpstreamTimeouts(first_byte_s=0.2, idle_s=0.2)
        async with (
            client.facing(ScriptedUpstream(sse_stream(3)), timeouts) as (_, upstream),
            upstream.exchange(ask()) as response,
        ):
            body = await response.read()
            await asyncio.sleep(0.6)
            while piece := await response.read():
                body += piece
                await asyncio.sleep(0.3)
            assert body.endswith(b"[DONE]\n\n")

    client.run(scenario())


@every_client
def test_long_silences_within_the_limits_are_fine(client: UpstreamClient) -> None:
    """As a long prefill makes them; the limits of one kind do not shorten the other."""

    async def thinks(exchange: Exchange) -> None:
        await asyncio.sleep(0.4)
        exchange.start_chunked()
        exchange.chunk(b"a")
        await asyncio.sleep(0.1)
        exchange.chunk(b"b")
        exchange.end_chunked()

    async def scenario() -> None:
        timeouts = UpstreamTimeouts(connect_s=0.25, first_byte_s=5, idle_s=0.3)
        async with client.facing(ScriptedUpstream(thinks), timeouts) as (_, upstream):
            for _ in range(2):
                assert (await fetch(upstream)).body == b"ab"

    client.run(scenario())


# The request body.

BIG = ask(body=b"x" * 30_000_000)


@every_client
def test_an_engine_that_reads_no_request_is_given_up_at_the_idle_timeout(
    client: UpstreamClient,
) -> None:
    async def takes_nothing(exchange: Exchange) -> None:
        exchange.stop_reading()
        await asyncio.sleep(3 * LIMIT_S)
        exchange.read_on()
        await silent(exchange)

    async def scenario() -> None:
        engine = ScriptedUpstream(takes_nothing, early=True)
        async with client.facing(engine, UpstreamTimeouts(idle_s=LIMIT_S)) as (_, upstream):
            with pytest.raises(UpstreamTimeoutError, match=r"did not read our request for 0.15 s"):
                await fetch(upstream, BIG)
            await engine.until(lambda: engine.aborts == 1)

    client.run(scenario())


@every_client
def test_an_engine_that_reads_slowly_is_not_given_up(client: UpstreamClient) -> None:
    async def sips(exchange: Exchange) -> None:
        for _ in range(8):
            exchange.stop_reading()
            await asyncio.sleep(0.08)
            exchange.read_on()
            await asyncio.sleep(0.01)
        await exchange.body()
        exchange.respond(b"taken")

    async def scenario() -> None:
        timeouts = UpstreamTimeouts(idle_s=0.5)  # what the kernel holds counts as read
        async with client.facing(ScriptedUpstream(sips, early=True), timeouts) as (_, upstream):
            assert (await fetch(upstream, BIG)).body == b"taken"

    client.run(scenario())


# Connecting.


@every_client
def test_an_address_that_does_not_answer_fails_at_the_connect_timeout(
    client: UpstreamClient,
) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with unresponsive_port() as port:
            upstream = client.for_port(port, UpstreamTimeouts(connect_s=LIMIT_S))
            started = loop.time()
            tasks = [asyncio.create_task(fetch(upstream)) for _ in range(10)]
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert {type(result) for result in results} == {UpstreamConnectError}
            assert "no connection within 0.15 s" in str(results[0])
            assert LIMIT_S - 0.005 <= loop.time() - started < LIMIT_S + SLACK_S
            await upstream.aclose()

    client.run(scenario())


@every_client
def test_an_engine_that_comes_back_is_found_at_once(client: UpstreamClient) -> None:
    """R34: a pool that failed to connect is not poisoned by it."""

    async def scenario() -> None:
        async with client.facing(ScriptedUpstream()) as (engine, upstream):
            await fetch(upstream)
            engine.stop_listening()
            engine.reset_all()
            results = await asyncio.gather(
                *(fetch(upstream) for _ in range(20)), return_exceptions=True
            )
            assert {type(result) for result in results} == {UpstreamConnectError}
            await engine.listen()
            assert (await fetch(upstream)).status == 200

    client.run(scenario())


@every_client
def test_a_cancelled_connect_leaves_nothing(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with unresponsive_port() as port:
            upstream = client.for_port(port, UpstreamTimeouts(connect_s=0.3))
            for steps in range(12):
                task = asyncio.create_task(fetch(upstream))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                assert task.cancelled()
            await upstream.aclose()

    client.run(scenario())

"""When a request is sent a second time: once, on a fresh connection, if a reused one died before
any byte of an answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.upstream.errors import UpstreamClosedError, UpstreamTimeoutError
from proxy.upstream.pool import IDLE_RACE_S
from proxy.upstream.port import UpstreamTimeouts
from tests.support.scripted_upstream import (
    Exchange,
    ScriptedUpstream,
    close_on_receipt,
    json_answer,
    raw_answer,
    reset_on_receipt,
    silent,
)
from tests.support.upstream_clients import ask, every_client, every_client_but, fetch

if TYPE_CHECKING:
    from proxy.upstream.port import Upstream
    from tests.support.scripted_answers import Handler
    from tests.support.upstream_clients import UpstreamClient


async def open_connections(upstream: Upstream, count: int) -> None:
    """So many at once, so that as many are idle afterwards."""
    await asyncio.gather(*(fetch(upstream) for _ in range(count)))


@every_client
@pytest.mark.parametrize("dies", [close_on_receipt, reset_on_receipt])
def test_a_request_on_a_fresh_connection_is_sent_once(
    client: UpstreamClient, dies: Handler
) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream(dies)) as (engine, upstream):
            with pytest.raises(UpstreamClosedError):
                await fetch(upstream)
            assert len(engine.seen) == 1

    client.run(scenario())


@every_client
@pytest.mark.parametrize("dies", [close_on_receipt, reset_on_receipt])
def test_a_request_on_a_reused_connection_that_dies_is_sent_again_on_a_fresh_one(
    client: UpstreamClient, dies: Handler
) -> None:
    async def dies_if_reused(exchange: Exchange) -> None:
        await (dies if exchange.request.connection <= 2 else json_answer())(exchange)

    async def scenario() -> None:
        async with client.facing(ScriptedUpstream()) as (engine, upstream):
            await open_connections(
                upstream, 2
            )  # two idle connections: the second try takes neither
            assert engine.connections_accepted == 2
            engine.handler = dies_if_reused
            again = ask(headers=[(b"x-client-id", b"again")], body=b"x" * 300_000)
            assert (await fetch(upstream, again)).status == 200
            first, second = engine.seen_by("again")
            assert (first.connection <= 2, second.connection) == (True, 3)
            assert first.raw == second.raw

    client.run(scenario())


@every_client
def test_a_request_is_sent_twice_at_most(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream()) as (engine, upstream):
            await open_connections(upstream, 4)
            engine.handler = close_on_receipt
            with pytest.raises(UpstreamClosedError):
                await fetch(upstream, ask(headers=[(b"x-client-id", b"twice")]))
            assert len(engine.seen_by("twice")) == 2

    client.run(scenario())


@every_client
def test_of_an_engine_that_is_gone_after_it_was_asked_it_is_said_that_it_closed(
    client: UpstreamClient,
) -> None:
    """Not that nobody could connect, as of a request that no engine has seen."""

    async def scenario() -> None:
        async with client.facing(ScriptedUpstream()) as (engine, upstream):

            async def dies_of_it(exchange: Exchange) -> None:
                await asyncio.sleep(2 * IDLE_RACE_S)
                engine.stop_listening()
                exchange.reset()

            await fetch(upstream)
            engine.handler = dies_of_it
            with pytest.raises(UpstreamClosedError):
                await fetch(upstream)

    client.run(scenario())


BROKEN_OFF = {
    "in-the-body": b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx",
    "before-the-body": b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n",
}
BROKEN_OFF_IN_THE_HEAD = {
    "first-byte": b"H",
    "in-the-fields": b"HTTP/1.1 200 OK\r\ncontent-",
    "after-an-interim-answer": b"HTTP/1.1 100 Continue\r\n\r\n",
}


async def _dies_having_answered(client: UpstreamClient, partial: bytes) -> None:
    async with client.facing(ScriptedUpstream()) as (engine, upstream):
        await fetch(upstream)
        engine.handler = raw_answer(partial, then="close")
        with pytest.raises(UpstreamClosedError):
            await fetch(upstream, ask(headers=[(b"x-client-id", b"once")]))
        assert len(engine.seen_by("once")) == 1


@every_client
@pytest.mark.parametrize("partial", BROKEN_OFF.values(), ids=BROKEN_OFF)
def test_a_request_whose_answer_has_begun_is_not_sent_again(
    client: UpstreamClient, partial: bytes
) -> None:
    client.run(_dies_having_answered(client, partial))


@every_client_but("sees_partial_heads")
@pytest.mark.parametrize("partial", BROKEN_OFF_IN_THE_HEAD.values(), ids=BROKEN_OFF_IN_THE_HEAD)
def test_a_request_of_whose_answer_one_byte_has_come_is_not_sent_again(
    client: UpstreamClient, partial: bytes
) -> None:
    client.run(_dies_having_answered(client, partial))


@every_client
def test_a_request_that_timed_out_is_not_sent_again(client: UpstreamClient) -> None:
    async def scenario() -> None:
        timeouts = UpstreamTimeouts(first_byte_s=0.05)
        async with client.facing(ScriptedUpstream(), timeouts) as (engine, upstream):
            await fetch(upstream)
            engine.handler = silent
            with pytest.raises(UpstreamTimeoutError):
                await fetch(upstream, ask(headers=[(b"x-client-id", b"once")]))
            assert len(engine.seen_by("once")) == 1

    client.run(scenario())


@every_client
@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_status_is_never_a_reason_to_send_again(client: UpstreamClient, status: int) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream()) as (engine, upstream):
            await fetch(upstream)
            engine.handler = json_answer(status=status)
            assert (await fetch(upstream)).status == status
            assert len(engine.seen) == 2

    client.run(scenario())

"""Where connections go: to the IP address that an engine is known by, and to another when it moves.
The name in its URL stays what TLS asks for."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from proxy.upstream.address import UpstreamAddress
from proxy.upstream.errors import UpstreamConnectError
from tests.support.scripted_upstream import Exchange, ScriptedUpstream, json_answer
from tests.support.tls import tls_pair
from tests.support.upstream_clients import ask, every_client, fetch

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from proxy.upstream.port import Upstream
    from tests.support.upstream_clients import UpstreamClient


@every_client
def test_connections_go_to_the_address_whatever_the_name(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with ScriptedUpstream() as engine:
            address = UpstreamAddress.parse(f"http://engine.invalid:{engine.port}").at("127.0.0.1")
            async with contextlib.aclosing(client.make(address)) as upstream:
                assert (await fetch(upstream)).status == 200
            assert engine.seen[0].raw.startswith(b"POST /v1/completions HTTP/1.1\r\nhost: engine\r")
            await engine.until(lambda: engine.connections_open == 0)

    client.run(scenario())


@every_client
def test_tls_asks_for_the_name(client: UpstreamClient) -> None:
    async def scenario() -> None:
        pair = tls_pair("engine.invalid")
        asked: list[str | None] = []
        pair.server.sni_callback = lambda _, name, __: asked.append(name)
        async with ScriptedUpstream(tls=pair.server) as engine:
            address = UpstreamAddress.parse(f"https://engine.invalid:{engine.port}").at("127.0.0.1")
            async with contextlib.aclosing(_secure(client, address, pair.client)) as upstream:
                assert (await fetch(upstream)).status == 200
            assert asked == ["engine.invalid"]
            await engine.until(lambda: engine.connections_open == 0)

    client.run(scenario())


@every_client
def test_a_certificate_for_the_address_alone_is_not_trusted(client: UpstreamClient) -> None:
    async def scenario() -> None:
        pair = tls_pair("127.0.0.1")
        async with ScriptedUpstream(tls=pair.server) as engine:
            address = UpstreamAddress.parse(f"https://engine.invalid:{engine.port}").at("127.0.0.1")
            async with contextlib.aclosing(_secure(client, address, pair.client)) as upstream:
                with pytest.raises(UpstreamConnectError, match=r"engine\.invalid"):
                    await fetch(upstream)
            await engine.until(lambda: engine.connections_open == 0)

    client.run(scenario())


def _secure(client: UpstreamClient, address: UpstreamAddress, tls: ssl.SSLContext) -> Upstream:
    return client.make(address, ssl_context=tls)


@contextlib.asynccontextmanager
async def two_engines() -> AsyncIterator[tuple[ScriptedUpstream, ScriptedUpstream]]:
    """At 127.0.0.1 and 127.0.0.2, with one port."""
    async with ScriptedUpstream() as one:
        async with ScriptedUpstream(host="127.0.0.2", port=one.port) as two:
            yield one, two
            await two.until(lambda: two.connections_open == 0)
        await one.until(lambda: one.connections_open == 0)


@every_client
def test_an_engine_that_moves_is_asked_where_it_is(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with two_engines() as (one, two):
            address = UpstreamAddress.parse(f"http://engine.invalid:{one.port}")
            async with contextlib.aclosing(client.make(address.at("127.0.0.1"))) as upstream:
                await fetch(upstream)
                upstream.move(address.at("127.0.0.2"))
                for _ in range(3):
                    await fetch(upstream)
            assert (len(one.seen), len(two.seen)) == (1, 3)

    client.run(scenario())


@every_client
def test_what_is_under_way_ends_where_it_is_and_its_connection_serves_no_more(
    client: UpstreamClient,
) -> None:
    async def scenario() -> None:
        goes_on = asyncio.Event()

        async def in_two_parts(exchange: Exchange) -> None:
            exchange.start_chunked()
            exchange.chunk(b"first")
            await goes_on.wait()
            exchange.chunk(b"last")
            exchange.end_chunked()

        async with two_engines() as (one, two):
            one.handler = in_two_parts
            address = UpstreamAddress.parse(f"http://engine.invalid:{one.port}")
            async with contextlib.aclosing(client.make(address.at("127.0.0.1"))) as upstream:
                async with upstream.exchange(ask()) as response:
                    assert await response.read() == b"first"
                    upstream.move(address.at("127.0.0.2"))
                    assert (await fetch(upstream)).status == 200
                    goes_on.set()
                    assert await response.read() == b"last"
                    assert await response.read() == b""
                one.handler = json_answer()
                await fetch(upstream)
            assert (len(one.seen), len(two.seen)) == (1, 2)

    client.run(scenario())

"""What the httpx client does on its own account; what it shares with the own pool is in
tests/conformance."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from proxy.upstream.address import UpstreamAddress
from proxy.upstream.errors import (
    UpstreamClosedError,
    UpstreamConnectError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from proxy.upstream.httpx_client import HttpxUpstream
from tests.support.scripted_upstream import Exchange, ScriptedUpstream, json_answer
from tests.support.tls import tls_pair
from tests.support.upstream_clients import ask, fetch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ENGINE = UpstreamAddress.parse("http://engine.test:8000")


@pytest.mark.parametrize(
    ("error", "expected", "said"),
    [
        (httpx.ConnectError("no"), UpstreamConnectError, "no"),
        (httpx.ConnectTimeout(""), UpstreamConnectError, "no connection within 5 s"),
        (httpx.ProxyError("407 Auth"), UpstreamConnectError, "407 Auth"),
        (httpx.ReadTimeout(""), UpstreamTimeoutError, "it fell silent for 120 s"),
        (httpx.WriteTimeout(""), UpstreamTimeoutError, "it did not read our request for 120 s"),
        (TimeoutError(), UpstreamTimeoutError, "did not answer within 600 s"),
        (httpx.RemoteProtocolError("illegal status line"), UpstreamProtocolError, "illegal"),
        (httpx.RemoteProtocolError("Server disconnected ..."), UpstreamClosedError, "Server"),
        (httpx.RemoteProtocolError("peer closed connection"), UpstreamClosedError, "peer"),
        (httpx.RemoteProtocolError("peer unexpectedly closed"), UpstreamClosedError, "peer"),
        (httpx.ReadError(""), UpstreamClosedError, "ReadError"),
        (httpx.WriteError(""), UpstreamClosedError, "WriteError"),
    ],
)
def test_every_error_of_httpx_becomes_one_of_the_closed_set(
    error: Exception, expected: type[UpstreamError], said: str
) -> None:
    mapped = HttpxUpstream(ENGINE).error_for(error)
    assert type(mapped) is expected
    assert str(mapped).startswith("engine at engine.test:8000: ")
    assert said in str(mapped)


def test_the_words_of_the_system_are_found_below_those_of_httpx() -> None:
    outer = httpx.ConnectError("All connection attempts failed")
    outer.__cause__ = OSError("wrapped once more")
    outer.__cause__.__cause__ = OSError(24, "Too many open files")
    assert "[Errno 24] Too many open files" in str(HttpxUpstream(ENGINE).error_for(outer))


def test_a_connection_that_is_reset_as_soon_as_it_is_made_is_the_engines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seen with uvloop, whose transport has no socket then, when an engine was killed."""

    async def ask_no_socket_for_its_peer(*_: object) -> None:
        socket: Any = None
        socket.getpeername()

    async def fail_otherwise(*_: object) -> None:
        socket: Any = None
        socket.getsockname()

    async def scenario() -> None:
        async with contextlib.aclosing(HttpxUpstream(ENGINE)) as upstream:
            transport = httpx.AsyncHTTPTransport
            monkeypatch.setattr(transport, "handle_async_request", ask_no_socket_for_its_peer)
            with pytest.raises(UpstreamClosedError, match="8000: reset as soon as it was made"):
                await fetch(upstream, ask())
            monkeypatch.setattr(transport, "handle_async_request", fail_otherwise)
            with pytest.raises(AttributeError, match="getsockname"):
                await fetch(upstream, ask())

    asyncio.run(scenario())


def test_plain_http_goes_through_a_forward_proxy_with_its_target_untouched() -> None:
    async def scenario() -> None:
        async with ScriptedUpstream(json_answer({"by": "proxy"})) as forward:
            upstream = HttpxUpstream(ENGINE, proxy=forward.url)
            async with contextlib.aclosing(upstream):
                fetched = await fetch(upstream, ask(target=b"/v1/../x?a=%2F"))
            assert fetched.body == b'{"by": "proxy"}'
            assert forward.seen[0].target == b"http://engine.test:8000/v1/../x?a=%2F"

    asyncio.run(scenario())


@contextlib.asynccontextmanager
async def tunnel_to(port: int, connects: list[bytes]) -> AsyncIterator[str]:
    """A forward proxy that knows CONNECT, and leads it to a port of ours whatever it names."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connects.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        back, forth = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(pump(reader, forth), pump(back, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


def test_https_goes_through_the_tunnel_of_a_forward_proxy() -> None:
    async def starts(exchange: Exchange) -> None:
        exchange.start_chunked()
        exchange.chunk(b"event")
        await asyncio.Event().wait()

    async def scenario() -> None:
        pair = tls_pair("engine.test")
        connects: list[bytes] = []
        async with ScriptedUpstream(tls=pair.server) as engine:
            address = UpstreamAddress.parse("https://engine.test:8443")
            async with tunnel_to(engine.port, connects) as proxy:
                upstream = HttpxUpstream(address, ssl_context=pair.client, proxy=proxy)
                for _ in range(2):
                    assert (await fetch(upstream, ask(target=b"/v1/../x"))).status == 200
                engine.handler = starts
                async with upstream.exchange(ask()) as response:
                    assert await response.read() == b"event"
                await engine.until(lambda: engine.aborts == 1, within_s=1)
                await upstream.aclose()
                await engine.until(lambda: engine.connections_open == 0)
            assert connects == [b"CONNECT engine.test:8443 HTTP/1.1"]
            assert [request.target for request in engine.seen][:2] == [b"/v1/../x"] * 2

    asyncio.run(scenario())

"""Answers that are no HTTP, answers that break off, and ways to the engine that do not open."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from typing import TYPE_CHECKING

import pytest

from proxy.upstream.errors import (
    UpstreamClosedError,
    UpstreamConnectError,
    UpstreamError,
    UpstreamProtocolError,
)
from proxy.upstream.port import UpstreamTimeouts
from tests.support.scripted_upstream import (
    Exchange,
    ScriptedUpstream,
    head,
    json_answer,
    raw_answer,
    refusing_port,
)
from tests.support.tls import tls_pair
from tests.support.upstream_clients import ask, every_client, every_client_but, fetch

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Iterator
    from typing import Literal

    from tests.support.scripted_answers import Handler
    from tests.support.upstream_clients import UpstreamClient

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
BRIEF = UpstreamTimeouts(first_byte_s=1, idle_s=1)


async def fails_with(client: UpstreamClient, error: type[UpstreamError], handler: Handler) -> None:
    """Three times in a row: an error, no re-send, no leak, and the next exchange works."""
    async with client.facing(ScriptedUpstream(handler), BRIEF) as (engine, upstream):
        for number in range(3):
            with pytest.raises(error) as caught:
                await fetch(upstream, ask(headers=[(b"authorization", b"Bearer sk-canary")]))
            assert "canary" not in str(caught.value)
            assert str(caught.value).startswith("engine at 127.0.0.1:")
            assert len(engine.seen) == number + 1
        engine.handler = json_answer()
        assert (await fetch(upstream)).status == 200


MALFORMED = {
    "garbage": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "a-tls-alert": b"\x15\x03\x01\x00\x02\x02\x46\r\n\r\n",
    "no-status": b"HTTP/1.1\r\n\r\n",
    "short-status": b"HTTP/1.1 20 OK\r\n\r\n",
    "long-status": b"HTTP/1.1 2000 OK\r\n\r\n",
    "status-099": b"HTTP/1.1 099 Odd\r\ncontent-length: 0\r\n\r\n",
    "status-600": b"HTTP/1.1 600 Odd\r\ncontent-length: 0\r\n\r\n",
    "status-999": b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n",
    "rtsp": b"RTSP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    "ice": b"ICE/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    "http-2": b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    "upgrade": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    "upgrade-without-its-fields": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "no-colon": OK + b"content-length 0\r\n\r\n",
    "no-name": OK + b": x\r\ncontent-length: 0\r\n\r\n",
    "blank-before-colon": OK + b"content-length : 0\r\n\r\n",
    "nul-in-value": OK + b"x: a\0b\r\ncontent-length: 0\r\n\r\n",
    "two-lengths": OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\nabc",
    "length-list": OK + b"content-length: 2, 3\r\n\r\nabc",
    "signed-length": OK + b"content-length: +2\r\n\r\nab",
    "negative-length": OK + b"content-length: -2\r\n\r\n",
    "worded-length": OK + b"content-length: two\r\n\r\nab",
    "huge-length": OK + b"content-length: 99999999999999999999999\r\n\r\nab",
    "length-and-chunked": OK + b"content-length: 5\r\n" + CHUNKED[17:] + b"0\r\n\r\n",
    "chunked-and-length": CHUNKED[:-2] + b"content-length: 5\r\n\r\n0\r\n\r\n",
    "coded-transfer": OK + b"transfer-encoding: gzip\r\n\r\nx",
    "coded-and-chunked": OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked-twice": CHUNKED[:-2] + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "worded-chunk-size": CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n",
    "negative-chunk-size": CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n",
    "prefixed-chunk-size": CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
    "huge-chunk-size": CHUNKED + b"FFFFFFFFFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n",
    "empty-chunk-size": CHUNKED + b"\r\nhello\r\n0\r\n\r\n",
    "chunk-longer-than-said": CHUNKED + b"5\r\nhello!\r\n0\r\n\r\n",
    "chunk-without-end": CHUNKED + b"5\r\nhello0\r\n\r\n",
    "huge-head": OK + b"x: %b\r\ncontent-length: 0\r\n\r\n" % (b"a" * 70_000),
    "endless-field": OK + b"x: " + b"a" * 200_000,
    "endless-fields": OK + b"x: a\r\n" * 40_000,
    "too-many-fields": OK + b"x: a\r\n" * 300 + b"content-length: 0\r\n\r\n",
    "endless-trailers": CHUNKED + b"0\r\n" + b"x: a\r\n" * 40_000,
}
H11_IS_LENIENT = {
    "folded-field": OK + b"x: a\r\n b\r\ncontent-length: 0\r\n\r\n",
    "bare-line-feeds": b"HTTP/1.1 200 OK\ncontent-length: 0\n\n",
}


@every_client
@pytest.mark.parametrize("raw", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_answer_is_a_protocol_error(client: UpstreamClient, raw: bytes) -> None:
    client.run(fails_with(client, UpstreamProtocolError, raw_answer(raw, then="hold")))


@every_client_but("strict_heads")
@pytest.mark.parametrize("raw", H11_IS_LENIENT.values(), ids=H11_IS_LENIENT)
def test_a_head_that_two_parsers_could_read_differently_is_a_protocol_error(
    client: UpstreamClient, raw: bytes
) -> None:
    client.run(fails_with(client, UpstreamProtocolError, raw_answer(raw, then="hold")))


@every_client_but("bounded_interim_answers")
def test_interim_answers_without_end_are_a_protocol_error(client: UpstreamClient) -> None:
    raw = b"HTTP/1.1 102 Processing\r\nx: y\r\n\r\n" * 5000
    client.run(fails_with(client, UpstreamProtocolError, raw_answer(raw, then="hold")))


BROKEN_OFF = {
    "silence": b"",
    "status-line": b"HTTP/1.1 2",
    "fields": OK + b"content-len",
    "before-the-body": OK + b"content-length: 5\r\n\r\n",
    "body": OK + b"content-length: 5\r\n\r\nabc",
    "before-a-chunk": CHUNKED,
    "chunk-size": CHUNKED + b"5",
    "chunk": CHUNKED + b"5\r\nhe",
    "between-chunks": CHUNKED + b"5\r\nhello\r\n",
    "before-the-last-line": CHUNKED + b"5\r\nhello\r\n0\r\n",
    "trailers": CHUNKED + b"5\r\nhello\r\n0\r\nx: y\r\n",
    "after-an-interim-answer": b"HTTP/1.1 100 Continue\r\n\r\n",
}


@every_client
@pytest.mark.parametrize("raw", BROKEN_OFF.values(), ids=BROKEN_OFF)
@pytest.mark.parametrize("ending", ["close", "reset"])
def test_an_answer_that_breaks_off_never_looks_complete(
    client: UpstreamClient, raw: bytes, ending: Literal["close", "reset"]
) -> None:
    client.run(fails_with(client, UpstreamClosedError, raw_answer(raw, then=ending)))


@every_client
def test_a_body_without_framing_that_is_reset_never_looks_complete(client: UpstreamClient) -> None:
    handler = raw_answer(head(200, []) + b"some", then="reset")
    client.run(fails_with(client, UpstreamClosedError, handler))


@every_client
@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (CHUNKED + b"5\r\nhello\r\n", UpstreamClosedError),
        (CHUNKED + b"5\r\nhello\r\nzz\r\n", UpstreamProtocolError),
    ],
)
def test_what_came_before_the_failure_is_delivered_first(
    client: UpstreamClient, raw: bytes, error: type[UpstreamError]
) -> None:
    async def scenario() -> None:
        async with (
            client.facing(ScriptedUpstream(raw_answer(raw, then="close"))) as (_, upstream),
            upstream.exchange(ask()) as response,
        ):
            assert await response.read() == b"hello"
            for _ in range(2):
                with pytest.raises(error):
                    await response.read()
            assert not response.is_exhausted

    client.run(scenario())


@every_client_but("early_answers")
def test_an_early_refusal_that_resets_is_still_read(client: UpstreamClient) -> None:
    """An engine that answers 413 and closes on a body that it does not read."""

    async def refuses(exchange: Exchange) -> None:
        exchange.respond(b"too large", 413, [("connection", "close")])
        exchange.close()

    async def scenario() -> None:
        engine = ScriptedUpstream(refuses, early=True)
        async with client.facing(engine, BRIEF) as (_, upstream):
            # The kernel may discard the answer when the reset overtakes it; more is not promised.
            for _ in range(20):
                try:
                    refusal = await fetch(upstream, ask(body=b"x" * 3_000_000))
                except UpstreamClosedError:
                    continue
                assert (refusal.status, refusal.body) == (413, b"too large")
                return
            pytest.fail("the refusal was never seen")

    client.run(scenario())


# Connecting.


async def connect_fails(client: UpstreamClient, port: int, said: str) -> None:
    upstream = client.for_port(port)
    with pytest.raises(UpstreamConnectError, match=said):
        await fetch(upstream)
    await upstream.aclose()


@every_client
def test_a_refused_connection_is_a_connect_error(client: UpstreamClient) -> None:
    with refusing_port() as port:
        client.run(connect_fails(client, port, r"refused|failed"))


@every_client
def test_running_out_of_descriptors_is_a_connect_error(client: UpstreamClient) -> None:
    """R37: the words of the operating system say which wall was hit."""

    async def scenario() -> None:
        async with client.facing(ScriptedUpstream()) as (_, upstream):
            full = pytest.raises(UpstreamConnectError, match="Too many open files")
            with no_descriptors_left(), full:
                await fetch(upstream)
            assert (await fetch(upstream)).status == 200

    client.run(scenario())


@contextlib.contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Lowers the soft limit to what is open now."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as probe:
        lowest_free = probe.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def handshake_fails(
    client: UpstreamClient, served: ssl.SSLContext | None, trusted: ssl.SSLContext, said: str
) -> None:
    async with ScriptedUpstream(tls=served) as engine:
        upstream = client.secure_for_port(engine.port, trusted, BRIEF)
        for _ in range(2):
            with pytest.raises(UpstreamConnectError, match=said):
                await fetch(upstream)
        await upstream.aclose()
        await engine.until(lambda: engine.connections_open == 0)
        assert engine.seen == []


@every_client
def test_a_certificate_of_an_unknown_authority_is_a_connect_error(client: UpstreamClient) -> None:
    served, trusted = tls_pair().server, tls_pair().client
    client.run(handshake_fails(client, served, trusted, "certificate verify failed"))


@every_client
def test_a_certificate_of_another_name_is_a_connect_error(client: UpstreamClient) -> None:
    pair = tls_pair("engine.test")
    client.run(handshake_fails(client, pair.server, pair.client, "certificate verify failed"))


@every_client
def test_a_server_that_speaks_no_tls_is_a_connect_error(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with plain_speaker() as port:
            upstream = client.secure_for_port(port, tls_pair().client, BRIEF)
            with pytest.raises(UpstreamConnectError):
                await fetch(upstream)
            await upstream.aclose()

    client.run(scenario())


@contextlib.asynccontextmanager
async def plain_speaker() -> AsyncIterator[int]:
    """Answers a TLS hello as a web server without TLS does."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@every_client
def test_plain_http_to_a_tls_port_is_a_failure_of_the_closed_set(client: UpstreamClient) -> None:
    async def scenario() -> None:
        pair = tls_pair()
        async with ScriptedUpstream(tls=pair.server) as engine:
            upstream = client.for_port(engine.port, BRIEF)
            with pytest.raises((UpstreamProtocolError, UpstreamClosedError)):
                await fetch(upstream)
            await upstream.aclose()
            await asyncio.sleep(0.01)

    client.run(scenario())


@every_client
def test_a_name_that_does_not_exist_is_a_connect_error(client: UpstreamClient) -> None:
    async def scenario() -> None:
        upstream = client.for_host("no-such-host.invalid", BRIEF)
        with pytest.raises(UpstreamConnectError, match=r"no-such-host\.invalid"):
            await fetch(upstream)
        await upstream.aclose()

    client.run(scenario())


@every_client
def test_proxy_variables_of_the_environment_are_not_asked(
    client: UpstreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R39: they are set for the internet, and would lead internal traffic out of the house."""
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "socks5://x")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,[::1]")
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent")

    async def scenario() -> None:
        async with client.facing(ScriptedUpstream()) as (_, upstream):
            assert (await fetch(upstream)).status == 200

    client.run(scenario())

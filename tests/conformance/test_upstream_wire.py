"""What reaches the engine, and what comes back: bytes, statuses and headers as they were sent."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import zlib
from typing import TYPE_CHECKING

import pytest

from tests.support.scripted_upstream import (
    Exchange,
    ScriptedUpstream,
    head,
    json_answer,
    raw_answer,
)
from tests.support.upstream_clients import ask, every_client, every_client_but, fetch

if TYPE_CHECKING:
    from proxy.upstream.port import UpstreamRequest
    from tests.support.scripted_answers import Handler
    from tests.support.upstream_clients import Fetched, UpstreamClient


def exchanged(
    client: UpstreamClient, handler: Handler, request: UpstreamRequest | None = None
) -> tuple[Fetched, ScriptedUpstream]:
    """One exchange with an engine that answers so; then a second one, which must succeed."""
    engine = ScriptedUpstream(handler)
    fetched: list[Fetched] = []

    async def scenario() -> None:
        async with client.facing(engine) as (_, upstream):
            fetched.append(await fetch(upstream, request))
            engine.handler = json_answer()
            assert (await fetch(upstream)).body == b'{"ok": true}'

    client.run(scenario())
    return fetched[0], engine


# Towards the engine.


@every_client
def test_the_head_leaves_as_it_was_given_plus_its_length(client: UpstreamClient) -> None:
    headers = [
        (b"X-Mixed-Case", b"1"),
        (b"x-twice", b"a"),
        (b"accept-encoding", b"br;q=1.0, *;q=0"),
        (b"x-twice", b"b"),
        (b"x-empty", b""),
        (b"x-latin", b"caf\xe9"),
    ]
    _, engine = exchanged(client, json_answer(), ask(headers=headers, body=b"{}"))
    assert engine.seen[0].raw == (
        b"POST /v1/completions HTTP/1.1\r\n"
        b"host: engine\r\n"
        b"X-Mixed-Case: 1\r\n"
        b"x-twice: a\r\n"
        b"accept-encoding: br;q=1.0, *;q=0\r\n"
        b"x-twice: b\r\n"
        b"x-empty: \r\n"
        b"x-latin: caf\xe9\r\n"
        b"content-length: 2\r\n"
        b"\r\n"
        b"{}"
    )


@every_client
@pytest.mark.parametrize(
    "target",
    [b"/v1/../sleep", b"/v1/models/org%2Fname?x=1&&x=2?", b"//v1//x", b"/v1/%2e%2e/a;b=c", b"/?"],
)
def test_the_target_is_sent_as_it_is(client: UpstreamClient, target: bytes) -> None:
    _, engine = exchanged(client, json_answer(), ask("GET", target, body=b""))
    assert engine.seen[0].target == target


@every_client_but("any_target_byte")
def test_a_target_may_hold_bytes_that_a_client_failed_to_encode(client: UpstreamClient) -> None:
    _, engine = exchanged(client, json_answer(), ask("GET", "/v1/モデル".encode(), body=b""))
    assert engine.seen[0].target == "/v1/モデル".encode()


@every_client
@pytest.mark.parametrize(
    ("method", "body", "framing"),
    [
        ("GET", b"", []),
        ("DELETE", b"", []),
        ("POST", b"", [b"0"]),
        ("PUT", b"", [b"0"]),
        ("POST", b"abc", [b"3"]),
        ("DELETE", b"abc", [b"3"]),
    ],
)
def test_a_request_has_one_framing_field_if_it_has_a_body(
    client: UpstreamClient, method: str, body: bytes, framing: list[bytes]
) -> None:
    _, engine = exchanged(client, json_answer(), ask(method, body=body))
    assert engine.seen[0].values(b"content-length") == framing
    assert engine.seen[0].values(b"transfer-encoding") == []
    assert engine.seen[0].body == body


@every_client
def test_a_large_body_arrives_whole(client: UpstreamClient) -> None:
    body = bytes(range(256)) * 32_000
    _, engine = exchanged(client, json_answer(), ask(body=body))
    assert engine.seen[0].values(b"content-length") == [b"%d" % len(body)]
    assert hashlib.sha256(engine.seen[0].body).digest() == hashlib.sha256(body).digest()


@every_client
@pytest.mark.parametrize(
    "request_",
    [
        ask(target=b"/v1/x y"),
        ask(target=b"/v1/x\r\nx-injected: 1"),
        ask("PO ST"),
        ask(headers=[(b"x", b"1\r\nx-injected: 1")]),
        ask(headers=[(b"x\r\nx-injected: 1", b"1")]),
        ask(headers=[(b"x", b"a\0b")]),
    ],
    ids=["blank", "break-in-target", "method", "break-in-value", "break-in-name", "nul"],
)
def test_nothing_is_sent_that_could_be_read_as_two_requests(
    client: UpstreamClient, request_: UpstreamRequest
) -> None:
    async def scenario() -> None:
        async with client.facing(ScriptedUpstream()) as (engine, upstream):
            with pytest.raises(ValueError, match="would not be read as it was meant"):
                await fetch(upstream, request_)
            assert engine.seen == []
            assert (await fetch(upstream)).status == 200

    client.run(scenario())


# From the engine.


@every_client
@pytest.mark.parametrize("status", [200, 400, 401, 404, 413, 422, 429, 500, 503, 299, 599])
def test_every_final_status_passes(client: UpstreamClient, status: int) -> None:
    handler = json_answer({"error": status}, status, [("retry-after", "7")])
    fetched, engine = exchanged(client, handler)
    assert fetched.status == status
    assert fetched.body == b'{"error": %d}' % status
    assert fetched.values(b"retry-after") == [b"7"]
    assert len(engine.seen) == 2, "a status was retried"


@every_client
def test_response_fields_keep_order_case_and_repetition(client: UpstreamClient) -> None:
    fields = [
        (b"Content-TYPE", b'Text/Event-Stream;charset=UTF-8; x="y"'),
        (b"set-cookie", b"a=1"),
        (b"Set-Cookie", b"b=2"),
        (b"x-empty", b""),
        (b"x-latin", b"caf\xe9"),
        (b"content-length", b"2"),
    ]
    fetched, _ = exchanged(client, raw_answer(head(200, fields) + b"ok"))
    assert fetched.headers == fields


@every_client
def test_cookies_of_the_engine_are_not_sent_back_to_it(client: UpstreamClient) -> None:
    _, engine = exchanged(client, json_answer(headers=[("set-cookie", "a=1")]))
    assert engine.seen[1].values(b"cookie") == []


@every_client
@pytest.mark.parametrize(
    "coded", [gzip.compress(b"hello" * 99, mtime=0), zlib.compress(b"x"), b"not gzip"]
)
def test_a_coded_body_passes_untouched(client: UpstreamClient, coded: bytes) -> None:
    async def answer(exchange: Exchange) -> None:
        exchange.respond(coded, headers=[("content-encoding", "gzip")])

    fetched, engine = exchanged(client, answer)
    assert fetched.body == coded
    assert fetched.values(b"content-encoding") == [b"gzip"]
    assert engine.seen[0].values(b"accept-encoding") == []


def answers_with(body: bytes) -> dict[str, Handler]:
    """The same body in each framing that HTTP/1.1 knows."""

    async def counted(exchange: Exchange) -> None:
        exchange.respond(body)

    async def chunked(exchange: Exchange) -> None:
        exchange.start_chunked()
        for start in range(0, len(body), 7):
            exchange.chunk(body[start : start + 7])
        exchange.end_chunked()

    async def trailers(exchange: Exchange) -> None:
        exchange.start_chunked(headers=[("trailer", "x-checksum")])
        exchange.chunk(body)
        exchange.end_chunked([("x-checksum", "1"), ("content-type", "text/evil")])

    async def extensions(exchange: Exchange) -> None:
        exchange.start_chunked()
        exchange.send(b'%X;name="a;b";c\r\n%b\r\n' % (len(body), body))
        exchange.end_chunked()

    async def until_close(exchange: Exchange) -> None:
        exchange.send(head(200, [("x", "y")]) + body)
        exchange.close()

    async def old(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.0 200 OK\r\n\r\n" + body)
        exchange.close()

    async def closing(exchange: Exchange) -> None:
        exchange.respond(body, headers=[("connection", "close")])

    handlers = [counted, chunked, trailers, extensions, until_close, old, closing]
    return {handler.__name__: handler for handler in handlers}


@every_client
@pytest.mark.parametrize("framing", list(answers_with(b"")))
@pytest.mark.parametrize("body", [b"x", b"hello, world" * 50_000], ids=["short", "long"])
def test_a_body_is_whole_however_it_is_framed(
    client: UpstreamClient, framing: str, body: bytes
) -> None:
    fetched, _ = exchanged(client, answers_with(body)[framing])
    assert hashlib.sha256(fetched.body).digest() == hashlib.sha256(body).digest()
    assert fetched.values(b"x-checksum") == []


@every_client
@pytest.mark.parametrize("framing", ["counted", "chunked", "trailers"])
def test_a_response_may_come_byte_by_byte(client: UpstreamClient, framing: str) -> None:
    """In its head, chunk sizes, trailers and characters: no place is special."""
    body = 'data: {"t": "日本語 🙂"}\r\n\r\n: ping\n\ndata: [DONE]\n\n'.encode()
    whole = answers_with(body)[framing]

    async def dribbled(exchange: Exchange) -> None:
        written: list[bytes] = []
        send = exchange.send
        exchange.send = written.append  # type: ignore[method-assign]
        await whole(exchange)
        exchange.finished = False
        exchange.send = send  # type: ignore[method-assign]
        await exchange.dribble(b"".join(written))

    fetched, _ = exchanged(client, dribbled)
    assert fetched.body == body


@every_client
@pytest.mark.parametrize("length", [[], [("content-length", "5")]], ids=["bare", "with-length"])
def test_a_head_response_has_no_body(client: UpstreamClient, length: list[tuple[str, str]]) -> None:
    fetched, _ = exchanged(client, raw_answer(head(200, length)), ask("HEAD", body=b""))
    assert (fetched.status, fetched.body) == (200, b"")


@every_client
@pytest.mark.parametrize("status", [204, 304])
def test_some_statuses_have_no_body(client: UpstreamClient, status: int) -> None:
    fetched, engine = exchanged(client, raw_answer(head(status, [("x", "y")])))
    assert (fetched.status, fetched.body) == (status, b"")
    assert engine.connections_accepted == 1


@every_client
def test_interim_answers_are_skipped(client: UpstreamClient) -> None:
    async def answer(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        exchange.send(b"HTTP/1.1 102 Processing\r\nx-a: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\n")
        await asyncio.sleep(0.01)
        exchange.send(b"link: </a>\r\n\r\n")
        exchange.respond(b"final")

    fetched, engine = exchanged(client, answer)
    assert (fetched.status, fetched.body) == (200, b"final")
    assert fetched.values(b"link") == fetched.values(b"x-a") == []
    assert engine.connections_accepted == 1


@every_client
def test_blanks_around_a_value_are_not_part_of_it(client: UpstreamClient) -> None:
    fields = [("x", " \t a b \t"), ("content-length", "0 ")]
    fetched, _ = exchanged(client, raw_answer(head(200, fields)))
    assert fetched.headers == [(b"x", b"a b"), (b"content-length", b"0")]

"""Where a body begins and ends, and how it is coded, on both sides of the gateway.

Field cases R42 to R44.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import zlib
from typing import TYPE_CHECKING

import pytest

from tests.support.raw_client import ask_once
from tests.support.scripted_upstream import head
from tests.support.stand import Stand, on_the_stand, standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.raw_client import RawAnswer
    from tests.support.scripted_answers import Handler
    from tests.support.scripted_upstream import Exchange

TEXT = b'{"text": "' + b"abc " * 5_000 + b'"}'
CODED = {"": TEXT, "gzip": gzip.compress(TEXT), "deflate": zlib.compress(TEXT), "br": b"\x0b\x02ab"}


@pytest.fixture(scope="module", params=["pool", "httpx"], name="stand")
def _stand(request: pytest.FixtureRequest) -> Iterator[Stand]:
    with standing(
        max_in_flight=2, max_queue_depth=4, queue_timeout=1, upstream_client=request.param
    ) as stand:
        yield stand


def values(answer: RawAnswer, name: str) -> list[str]:
    return [value for key, value in answer.headers if key.lower() == name]


# From the engine to the client.


def framed(framing: str, coding: str) -> Handler:
    """The same body, framed as an engine may frame it."""
    body = CODED[coding]
    fields = [("content-type", "application/json")]
    fields += [("content-encoding", coding)] if coding else []

    async def answer(exchange: Exchange) -> None:
        if framing == "counted":
            exchange.respond(body, headers=fields[1:])
        elif framing == "chunked":
            exchange.start_chunked(content_type=fields[0][1], headers=fields[1:])
            for at in range(0, len(body), 3_000):
                exchange.chunk(body[at : at + 3_000])
            exchange.end_chunked()
        elif framing == "trailers":
            exchange.start_chunked(headers=[*fields[1:], ("trailer", "x-sum")])
            exchange.chunk(body)
            exchange.end_chunked([("x-sum", "1")])
        else:
            exchange.send(head(200, fields) + body)
            exchange.close()

    return answer


def has_one_framing(answer: RawAnswer) -> bool:
    lengths, codings = values(answer, "content-length"), values(answer, "transfer-encoding")
    if lengths:
        return lengths == [str(len(answer.body))] and not codings
    return codings == ["chunked"]


@pytest.mark.parametrize("coding", ["", "gzip"])
@pytest.mark.parametrize("framing", ["counted", "chunked", "trailers", "until-close"])
@on_the_stand
async def test_an_answer_has_one_framing_and_the_connection_goes_on(
    stand: Stand, framing: str, coding: str
) -> None:
    """R42: also when the engine's connection ends with its answer."""
    stand.upstream.handler = framed(framing, coding)
    async with await stand.client() as client:
        for _ in range(3):
            answer = await client.ask(stand.request())
            assert answer.complete
            assert answer.body == CODED[coding]
            assert has_one_framing(answer)
            assert values(answer, "content-encoding") == [coding] * bool(coding)
            assert values(answer, "trailer") == values(answer, "x-sum") == []


@on_the_stand
async def test_an_own_answer_has_one_framing_and_the_connection_goes_on(stand: Stand) -> None:
    """R42"""
    async with await stand.client() as client:
        for request, status in [
            (stand.request("/nowhere", b"", "GET"), 404),
            (stand.request("/v1/completions", b"", "GET"), 405),
            (stand.request(body=b"{no json"), 400),
            (stand.request(), 200),
        ]:
            answer = await client.ask(request)
            assert (answer.status, answer.complete) == (status, True)
            assert has_one_framing(answer)


@pytest.mark.parametrize(("status", "method"), [(204, "GET"), (304, "GET"), (200, "HEAD")])
@on_the_stand
async def test_an_answer_without_a_body_leaves_the_connection_usable(
    stand: Stand, status: int, method: str
) -> None:
    """R42: a framing where there is nothing to frame desynchronizes what comes next."""

    async def bodiless(exchange: Exchange) -> None:
        exchange.send(head(status, [("x-kept", "1")]))
        exchange.finish_answer()

    if method == "HEAD":
        request = stand.request("/healthz", b"", "HEAD")
    else:
        stand.upstream.handler = bodiless
        request = stand.request("/v1/models", b"", method)
    async with await stand.client() as client:
        client.send(request)
        answer = await client.answer(head_request=method == "HEAD")
        assert answer.status == status
        assert values(answer, "transfer-encoding") == []
        assert (await client.ask(stand.request("/nowhere", b"", "GET"))).status == 404


@pytest.mark.parametrize("framing", ["counted", "chunked", "until-close"])
@on_the_stand
async def test_an_http_1_0_client_gets_no_chunks(stand: Stand, framing: str) -> None:
    """R42: its body ends with the connection, in an orderly way."""
    stand.upstream.handler = framed(framing, "")
    async with await stand.client() as client:
        client.send(stand.request().replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        answer = await client.head()
        assert values(answer, "transfer-encoding") == []
        assert await client.rest() == (TEXT, False)


@on_the_stand
async def test_pipelined_requests_are_answered_in_order_one_after_the_other(stand: Stand) -> None:
    """R42"""

    async def name_it(exchange: Exchange) -> None:
        await asyncio.sleep(0.01)
        exchange.respond(str(exchange.request.client_id).encode())

    stand.upstream.handler = name_it
    names = [f"r{number}" for number in range(5)]
    async with await stand.client() as client:
        client.send(b"".join(stand.request(client_id=name) for name in names))
        assert [(await client.answer()).body.decode() for _ in names] == names
    assert stand.upstream.peak == 1


@pytest.mark.parametrize("coding", list(CODED))
@pytest.mark.parametrize("accepts", [None, "gzip", "br, zstd;q=0.5", "identity", ""])
@on_the_stand
async def test_codings_are_between_client_and_engine(
    stand: Stand, accepts: str | None, coding: str
) -> None:
    """R43: what the client accepts reaches the engine as it was said, or not at all; what the
    engine encodes reaches the client as it was encoded, whatever the client accepts."""
    stand.upstream.handler = framed("chunked", coding)
    headers = {} if accepts is None else {"Accept-Encoding": accepts}
    answer = await ask_once(stand.sluice.port, stand.request(headers=headers))
    expected = [] if accepts is None else [accepts.encode()]
    assert stand.upstream.seen[0].values(b"accept-encoding") == expected
    assert values(answer, "content-encoding") == [coding] * bool(coding)
    assert hashlib.sha256(answer.body).digest() == hashlib.sha256(CODED[coding]).digest()


# From the client to the engine.

UPLOAD = bytes(range(256)) * 2_000


def in_chunks(data: bytes) -> bytes:
    pieces = (data[at : at + 10_000] for at in range(0, len(data), 10_000))
    return b"".join(b"%x;ext=1\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize("chunked", [False, True])
@on_the_stand
async def test_an_upload_reaches_the_engine_with_one_framing(stand: Stand, chunked: bool) -> None:
    """R44"""
    headers = {"Content-Type": "application/octet-stream"}
    body = UPLOAD
    if chunked:
        headers["Transfer-Encoding"] = "chunked"
        body = in_chunks(UPLOAD)
    request = stand.request("/v1/audio/transcriptions", body, headers=headers)
    assert (await ask_once(stand.sluice.port, request)).status == 200
    seen = stand.upstream.seen[0]
    assert seen.values(b"content-length") == [b"%d" % len(UPLOAD)]
    assert seen.values(b"transfer-encoding") == []
    assert hashlib.sha256(seen.raw_body).digest() == hashlib.sha256(UPLOAD).digest()


BAD_FRAMINGS = [
    b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}}",
    b"Content-Length: -1\r\n\r\n",
    b"Content-Length: 2, 2\r\n\r\n{}",
    b"Content-Length: 0x2\r\n\r\n{}",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"X: 1\r\n folded\r\nContent-Length: 2\r\n\r\n{}",
    b"X\0: 1\r\nContent-Length: 2\r\n\r\n{}",
]


@pytest.mark.parametrize("framing", BAD_FRAMINGS)
@on_the_stand
async def test_a_request_that_could_be_read_in_two_ways_reaches_nobody(
    stand: Stand, framing: bytes
) -> None:
    """R44: one clear refusal, nothing smuggled behind it."""
    smuggled = stand.request("/v1/models", b"", "GET", client_id="smuggled")
    async with await stand.client() as client:
        client.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + framing + smuggled)
        answer = await client.answer()
        assert answer.status == 400
        assert answer.error["code"] == "bad_request"
        assert (await client.rest())[0] == b""
    assert stand.upstream.seen == []


@pytest.mark.parametrize("fields", [("application/json", "text/plain"), ("", "text/plain")])
@on_the_stand
async def test_a_body_of_two_types_is_refused(stand: Stand, fields: tuple[str, str]) -> None:
    """Seats = what runs: vLLM goes by the first type, and would run 50 sequences for one seat."""
    first, second = fields
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: {first}\r\n"
    body = b'{"n": 50}'
    rest = f"Content-Type: {second}\r\nContent-Length: {len(body)}\r\n\r\n"
    answer = await ask_once(stand.sluice.port, head.encode() + rest.encode() + body)
    assert answer.status == 400
    assert answer.error["code"] == "bad_request"
    assert stand.upstream.seen == []


@pytest.mark.parametrize("coding", ["gzip, chunked", "deflate, chunked", "chunked, chunked"])
@on_the_stand
async def test_a_transfer_coding_that_nobody_would_undo_is_refused(
    stand: Stand, coding: str
) -> None:
    """R44: the engine would get a coded body and not be told."""
    headers = {"Transfer-Encoding": coding}
    answer = await ask_once(stand.sluice.port, stand.request(body=b"0\r\n\r\n", headers=headers))
    assert answer.status == 400
    assert answer.error["code"] == "bad_request"
    assert stand.upstream.seen == []

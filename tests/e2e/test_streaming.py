"""A stream at the client: every byte, when it comes, as it was sent. Field cases R16 to R23.

How a stream looks that breaks off: test_broken_streams.py.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.gateway_process import gateway
from tests.support.raw_client import RawClient, ask_once, request_bytes
from tests.support.scripted_upstream import Hold, ScriptedUpstream, head
from tests.support.stand import Stand, on_the_stand, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.scripted_upstream import Exchange

SSE = "text/event-stream; charset=utf-8"


@pytest.fixture(scope="module", params=["pool", "httpx"], name="stand")
def _stand(request: pytest.FixtureRequest) -> Iterator[Stand]:
    with standing(
        max_in_flight=2, max_queue_depth=4, queue_timeout=1, upstream_client=request.param
    ) as stand:
        yield stand


# Nothing is held back.


class Lockstep:
    """An engine that sends a piece only when the client has the one before: whatever holds a piece
    back stops everything."""

    def __init__(self, start: Callable[[Exchange], None], framed: Callable[[bytes], bytes]) -> None:
        self._start = start
        self._framed = framed
        self._received = asyncio.Semaphore(0)

    def received(self) -> None:
        self._received.release()

    async def __call__(self, exchange: Exchange) -> None:
        self._start(exchange)
        for number in range(EVENTS):
            await self._received.acquire()
            exchange.send(self._framed(event(number)))
        await self._received.acquire()
        if self._framed is chunk:
            exchange.end_chunked()


EVENTS = 20


def event(number: int) -> bytes:
    return b'data: {"n": %04d}\n\n' % number


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def as_it_is(data: bytes) -> bytes:
    return data


def start(content_type: str, *headers: tuple[str, str]) -> Callable[[Exchange], None]:
    def send_head(exchange: Exchange) -> None:
        exchange.send(head(200, [("content-type", content_type), *headers]))

    return send_head


CHUNKED = ("transfer-encoding", "chunked")
KINDS_OF_STREAM = {
    "sse": (start(SSE, CHUNKED), chunk),
    "sse-gzip": (start(SSE, CHUNKED, ("content-encoding", "gzip")), chunk),
    "json": (start("application/json", CHUNKED), chunk),
    "counted": (start(SSE, ("content-length", str(len(event(0)) * EVENTS))), as_it_is),
}


@pytest.mark.parametrize("accepts", ["", "gzip"])
@pytest.mark.parametrize("kind", list(KINDS_OF_STREAM))
@on_the_stand
async def test_the_head_and_every_event_arrive_before_the_next_is_sent(
    stand: Stand, kind: str, accepts: str
) -> None:
    """R16"""
    stand.upstream.handler = engine = Lockstep(*KINDS_OF_STREAM[kind])
    headers = {"Accept-Encoding": accepts} if accepts else {}
    async with await stand.client() as client, asyncio.timeout(10):
        client.send(stand.request(body={"stream": True}, headers=headers))
        answer = await client.head()
        for number in range(EVENTS):
            engine.received()
            if kind == "counted":
                received = await client.reader.readexactly(len(event(0)))
            else:
                received = await client.chunk(answer)
            assert received == event(number), "not one event in one piece"
        engine.received()
        if kind != "counted":
            assert await client.chunk(answer) == b""


def most_in_kernel_buffers() -> int:
    """Bytes that fit between engine and client when nobody reads: two sockets on either hop, each
    as large as the kernel lets it grow, and what the gateway itself may hold."""
    largest = sum(
        int(Path(f"/proc/sys/net/ipv4/{name}").read_text().split()[2])
        for name in ("tcp_rmem", "tcp_wmem")
    )
    return 2 * largest + 4 * 1024 * 1024


MOST_IN_BUFFERS = most_in_kernel_buffers()


class Flood:
    """Sends as fast as it is read, and counts."""

    def __init__(self) -> None:
        self.sent_bytes = 0

    async def __call__(self, exchange: Exchange) -> None:
        exchange.start_chunked()
        while True:
            exchange.chunk(b"x" * 65_536)
            await exchange.drain()
            self.sent_bytes += 65_536


@on_the_stand
async def test_a_client_that_reads_slowly_slows_the_engine_down(stand: Stand) -> None:
    """R16, the other way round: nor does a stream pile up in the gateway."""
    stand.upstream.handler = flood = Flood()
    async with await stand.client() as client:
        client.send(stand.request())
        sent = -1
        while sent < flood.sent_bytes:  # until nothing moves any more
            sent = flood.sent_bytes
            await asyncio.sleep(0.2)
        assert sent < MOST_IN_BUFFERS, "more than the kernel's buffers hold"
        await asyncio.sleep(1.2)  # long enough for a sweep to see it
        received = 0
        while received < 2 * MOST_IN_BUFFERS:
            received += len(await client.reader.read(1 << 20))
            assert not client.reader.at_eof()
        client.reset()
        client.reset()


# Nothing is added, and nothing is lost.

CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n'
FINISHED = b'data: {"choices":[{"index":0,"delta":{"content":"!"},"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"
WHOLE_STREAMS = {
    "done": [CHUNK, CHUNK, DONE],
    "no-done": [CHUNK, CHUNK],
    "usage-last": [CHUNK, FINISHED, USAGE, DONE],
    "finish-with-content": [CHUNK, FINISHED, DONE],
    "text-after-done": [CHUNK, DONE, b": bye\n\n", b"data: more\n\n"],
    "two-dones": [CHUNK, DONE, DONE],
    "error-event": [CHUNK, b'data: {"error": {"message": "bad"}}\n\n', DONE],
    "no-newline-at-the-end": [CHUNK, b"data: [DONE]"],
    "empty": [],
}


@pytest.mark.parametrize("stream", list(WHOLE_STREAMS))
@on_the_stand
async def test_a_whole_stream_passes_as_it_is(stand: Stand, stream: str) -> None:
    """R18: no [DONE] is invented, none is lost, and all of these are successes."""
    pieces = WHOLE_STREAMS[stream]

    async def send_pieces(exchange: Exchange) -> None:
        exchange.start_chunked()
        for piece in pieces:
            exchange.chunk(piece)
            await asyncio.sleep(0.01)
        exchange.end_chunked()

    stand.upstream.handler = send_pieces
    async with await stand.client() as client:
        answer = await client.ask(stand.request(body={"stream": True}))
        assert answer.complete
        assert answer.body == b"".join(pieces)
        assert await stand.outcomes() == {"ok": 1}


@on_the_stand
async def test_a_stream_is_over_when_the_engine_says_so_not_at_done(stand: Stand) -> None:
    """R18: vLLM may take its time after [DONE], and the engine's end is the client's."""
    may_end = asyncio.Event()

    async def lingers(exchange: Exchange) -> None:
        exchange.start_chunked()
        exchange.chunk(DONE)
        await may_end.wait()
        exchange.end_chunked()

    stand.upstream.handler = lingers
    async with await stand.client() as client:
        client.send(stand.request(body={"stream": True}))
        answer = await client.head()
        assert await client.chunk(answer) == DONE
        end = asyncio.ensure_future(client.chunk(answer))
        await asyncio.wait([end], timeout=0.5)
        assert not end.done()
        assert stand.upstream.inflight == 1
        may_end.set()
        assert await asyncio.wait_for(end, 2) == b""


# Every byte, however it is cut.

ONE_EVENT = 'event: delta\r\nid: 7\r\ndata: {"text": "日本語 🙂"}\r\n\r\n'.encode()
CORPUS = (
    ONE_EVENT
    + b": a comment\n\nretry: 10\n\ndata: one\ndata: two\n\n"
    + b"data: nul \0, not utf-8 \xff\xfe\xc3\x28, lone CR \r in the middle\n\n"
    + "data: 漢字かな交じり文 🙂🙃\n\n".encode()
)
MEGABYTE = CORPUS * (700_000 // len(CORPUS)) + b"data: " + b"y" * 300_000 + b"\n\n" + CORPUS


def byte_by_byte() -> list[bytes]:
    return [CORPUS[at : at + 1] for at in range(len(CORPUS))]


def at_every_offset() -> list[bytes]:
    """One event again and again, each time cut in two somewhere else."""
    cuts = range(1, len(ONE_EVENT))
    return [piece for at in cuts for piece in (ONE_EVENT[:at], ONE_EVENT[at:])]


def many_events_a_write() -> list[bytes]:
    size = 50 * len(CORPUS) + 7
    return [MEGABYTE[at : at + size] for at in range(0, len(MEGABYTE), size)]


@pytest.mark.parametrize("wire", ["chunks", "segments"])
@pytest.mark.parametrize("cut", [byte_by_byte, at_every_offset, many_events_a_write])
@on_the_stand
async def test_bytes_pass_whatever_they_are_and_however_they_are_cut(
    stand: Stand, cut: Callable[[], list[bytes]], wire: str
) -> None:
    """R20: in HTTP chunks of their own, or in one HTTP body that TCP delivers in pieces."""
    pieces = cut()

    async def send_pieces(exchange: Exchange) -> None:
        length = sum(len(piece) for piece in pieces)
        framing = CHUNKED if wire == "chunks" else ("content-length", str(length))
        start(SSE, framing)(exchange)
        for piece in pieces:
            exchange.send(chunk(piece) if wire == "chunks" else piece)
            await exchange.drain()
            await asyncio.sleep(0)
        if wire == "chunks":
            exchange.end_chunked()

    stand.upstream.handler = send_pieces
    async with await stand.client() as client:
        answer = await client.ask(stand.request(body={"stream": True}))
    assert answer.complete
    sent = b"".join(pieces)
    assert hashlib.sha256(answer.body).digest() == hashlib.sha256(sent).digest()


# Silence.


@pytest.mark.slow
@pytest.mark.timeout(40)
def test_silence_is_no_failure_in_the_queue_before_the_head_or_between_events() -> None:
    """R22: 6 s are more than the 5 s at which httpx and uvicorn lose patience by default, and more
    than everything that is set here but the two limits for the engine's silence."""

    async def quiet(exchange: Exchange) -> None:
        if exchange.request.client_id == "between-events":
            exchange.start_chunked()
            exchange.chunk(CHUNK)
        await asyncio.sleep(6)
        if exchange.request.client_id == "before-the-head":
            exchange.start_chunked()
            exchange.chunk(CHUNK)
        exchange.chunk(DONE)
        exchange.end_chunked()

    async def ask(port: int, name: str) -> bytes:
        answer = await ask_once(port, request_bytes(headers={"x-client-id": name}))
        assert answer.status == 200
        assert answer.complete
        return answer.body

    async def scenario(upstream_client: str) -> None:
        async with (
            ScriptedUpstream(quiet) as upstream,
            gateway(
                upstream.url,
                upstream_client=upstream_client,
                max_in_flight=2,
                max_queue_depth=2,
                queue_timeout=20,
                body_timeout=1,
                connect_timeout=1,
                write_timeout=1,
            ) as sluice,
        ):
            running = ("before-the-head", "between-events")
            bodies = [asyncio.ensure_future(ask(sluice.port, name)) for name in running]
            await upstream.until(lambda: upstream.inflight == 2)
            async with await RawClient.connect(sluice.port) as waiting:
                waiting.send(request_bytes(headers={"x-client-id": "waits"}))
                await sluice.until_metric("sluice_queue_depth", 1)
                assert await asyncio.gather(*bodies) == [CHUNK + DONE] * 2
                await upstream.until(lambda: len(upstream.seen_by("waits")) == 1)

    async def both() -> None:
        await asyncio.gather(scenario("pool"), scenario("httpx"))

    asyncio.run(both())


@on_the_stand
async def test_a_stream_that_cannot_start_is_a_status_not_an_event(stand: Stand) -> None:
    """R23: a full queue, and a wait that was too long."""
    stand.upstream.handler = hold = Hold(start=True)
    wanted = stand.request(body={"stream": True}, headers={"Accept": "text/event-stream"})
    clients = [await stand.client() for _ in range(6)]
    for client in clients:
        client.send(wanted)
    await stand.sluice.until_metric("sluice_queue_depth", 4)
    full = await ask_once(stand.sluice.port, wanted)
    for answer, code in [(full, "queue_full"), (await clients[5].answer(), "queue_timeout")]:
        assert (answer.status, answer.error["code"]) == (503, code)
        assert answer.header("content-type") == "application/json"
        assert answer.header("retry-after")
    hold.release()
    await stand.sluice.until_idle()
    for client in clients:
        client.close()

"""Chunk for chunk, neither late nor without bound: flow in both directions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.support.scripted_upstream import Exchange, ScriptedUpstream, json_answer
from tests.support.tls import tls_pair
from tests.support.upstream_clients import ask, every_client, every_client_but, fetch

if TYPE_CHECKING:
    from tests.support.upstream_clients import UpstreamClient

TLS = tls_pair()
# The kernel's buffers on both sides of a loopback connection, and everything above them.
BUFFERS_BYTES = 16_000_000


class Stepwise:
    """Streams one event each time the test asks for it."""

    def __init__(self) -> None:
        self.steps: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def __call__(self, exchange: Exchange) -> None:
        exchange.start_chunked()
        while (event := await self.steps.get()) is not None:
            exchange.chunk(event)
        exchange.end_chunked()


@every_client
@pytest.mark.parametrize("secure", [False, True], ids=["tcp", "tls"])
def test_the_head_and_every_event_come_as_they_are_sent(
    client: UpstreamClient, secure: bool
) -> None:
    """Nothing waits for more to come: the engine sends the next event only after the last one
    was read."""

    async def scenario() -> None:
        stepwise = Stepwise()
        engine = ScriptedUpstream(stepwise, tls=TLS.server if secure else None)
        async with (
            client.facing(engine, tls=TLS.client) as (_, upstream),
            upstream.exchange(ask()) as response,
        ):
            assert response.status == 200
            for number in range(20):
                event = b"data: %d\n\n" % number
                stepwise.steps.put_nowait(event)
                assert await response.read() == event
                assert not response.is_exhausted
            stepwise.steps.put_nowait(None)
            assert await response.read() == b""
            assert response.is_exhausted
            assert await response.read() == b""

    client.run(scenario())


@every_client
def test_the_last_piece_of_an_announced_body_is_known_to_be_the_last(
    client: UpstreamClient,
) -> None:
    """Whoever is given it may leave at once: the answer was whole."""

    async def scenario() -> None:
        engine = ScriptedUpstream(json_answer({"error": "x" * 5_000}, status=500))
        async with client.facing(engine) as (_, upstream), upstream.exchange(ask()) as response:
            pieces: list[bytes] = []
            while not response.is_exhausted:
                pieces.append(await response.read())
            assert all(pieces), "an empty piece is one too many"
            assert len(b"".join(pieces)) > 5_000
            assert await response.read() == b""
        assert not engine.seen[0].aborted

    client.run(scenario())


@every_client
def test_an_answer_without_a_body_is_readable_at_once(client: UpstreamClient) -> None:
    async def scenario() -> None:
        async with (
            client.facing(ScriptedUpstream(json_answer({}))) as (_, upstream),
            upstream.exchange(ask("HEAD")) as response,
        ):
            assert response.is_readable
            assert await response.read() == b""
            assert response.is_exhausted

    client.run(scenario())


@every_client
def test_an_event_larger_than_any_buffer_comes_whole(client: UpstreamClient) -> None:
    async def scenario() -> None:
        stepwise = Stepwise()
        event = b"data: " + bytes(range(256)) * 4000 + b"\n\n"
        async with client.facing(ScriptedUpstream(stepwise)) as (_, upstream):
            stepwise.steps.put_nowait(event)
            stepwise.steps.put_nowait(None)
            assert (await fetch(upstream)).body == event

    client.run(scenario())


class Flood:
    """Sends as fast as it is read, and counts what it could send."""

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self.sent_bytes = 0

    async def __call__(self, exchange: Exchange) -> None:
        exchange.start_chunked()
        while self.sent_bytes < self._total_bytes:
            exchange.chunk(b"x" * 50_000)
            await exchange.drain()
            self.sent_bytes += 50_000
        exchange.end_chunked()


@every_client
@pytest.mark.parametrize("secure", [False, True], ids=["tcp", "tls"])
def test_a_body_that_nobody_reads_holds_the_engine_back(
    client: UpstreamClient, secure: bool
) -> None:
    async def scenario() -> None:
        flood = Flood(4 * BUFFERS_BYTES)
        engine = ScriptedUpstream(flood, tls=TLS.server if secure else None)
        async with (
            client.facing(engine, tls=TLS.client) as (_, upstream),
            upstream.exchange(ask()) as response,
        ):
            sent = -1
            while sent < flood.sent_bytes:  # until a while has passed without progress
                sent = flood.sent_bytes
                await asyncio.sleep(0.1)
            assert sent < BUFFERS_BYTES
            received = 0
            while piece := await response.read():
                assert len(piece) < 1_000_000, "more was buffered than ought to be"
                received += len(piece)
            assert received == 4 * BUFFERS_BYTES

    client.run(scenario())


class SlowReader:
    """Takes nothing of a request body until told to go on."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        exchange.stop_reading()
        await self.may_go_on.wait()
        exchange.read_on()
        await exchange.body()
        exchange.respond(b"taken")


@every_client
@pytest.mark.parametrize("secure", [False, True], ids=["tcp", "tls"])
def test_a_body_that_the_engine_does_not_read_waits_for_it(
    client: UpstreamClient, secure: bool
) -> None:
    async def scenario() -> None:
        slow = SlowReader()
        engine = ScriptedUpstream(slow, early=True, tls=TLS.server if secure else None)
        body = bytes(range(256)) * 100_000
        async with client.facing(engine, tls=TLS.client) as (_, upstream):
            sending = asyncio.create_task(fetch(upstream, ask(body=body)))
            await engine.until(lambda: engine.inflight == 1)
            await asyncio.sleep(0.1)
            assert not sending.done()
            slow.may_go_on.set()
            assert (await sending).body == b"taken"
            assert engine.seen[0].body == body
            engine.handler, engine.early = json_answer(), False
            await fetch(upstream)
            assert engine.connections_accepted == 1

    client.run(scenario())


@every_client_but("early_answers")
def test_an_answer_is_noticed_while_the_body_is_being_sent(client: UpstreamClient) -> None:
    """What the engine wrote is read though it takes no more, and the rest of the body still goes
    to it when it does."""

    async def answers_first(exchange: Exchange) -> None:
        exchange.stop_reading()
        exchange.start_chunked()
        exchange.chunk(b"early")
        await asyncio.sleep(0.3)
        exchange.read_on()
        body = await exchange.body()
        exchange.chunk(b"%d" % len(body))
        exchange.end_chunked()

    async def scenario() -> None:
        engine = ScriptedUpstream(answers_first, early=True)
        async with (
            client.facing(engine) as (_, upstream),
            asyncio.timeout(5),
            upstream.exchange(ask(body=b"x" * 20_000_000)) as response,
        ):
            assert await response.read() == b"early"
            assert not engine.seen[0].body, "this came after the body"
            assert await response.read() == b"20000000"

    client.run(scenario())


@every_client
def test_a_response_that_says_it_is_readable_is_read_without_waiting(
    client: UpstreamClient,
) -> None:
    async def scenario() -> None:
        stepwise = Stepwise()
        async with (
            client.facing(ScriptedUpstream(stepwise)) as (_, upstream),
            upstream.exchange(ask()) as response,
        ):
            assert not response.is_readable
            for event in (b"one", b"two", None):
                stepwise.steps.put_nowait(event)
                await asyncio.sleep(0.02)
                if response.is_readable:
                    with pytest.raises(StopIteration) as read:
                        response.read().send(None)  # type: ignore[attr-defined]
                    assert read.value.value == event or event is None
                else:
                    assert client.name.startswith("httpx"), "only httpx may not know"
                    await response.read()

    client.run(scenario())

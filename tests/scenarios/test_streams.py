"""From the engine's first byte to the client's last: who waits meanwhile, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from proxy.upstream.port import UpstreamTimeouts
from tests.support.gateway_in_memory import gateway, leave
from tests.support.scripted_app import (
    DONE,
    JSON,
    SSE,
    BreaksOffError,
    Hold,
    ScriptedApp,
    after,
    event_error,
    stream,
)
from tests.support.virtual_time import now, run, settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.gateway_in_memory import Sluice
    from tests.support.scripted_app import Call, Fields

GZIP = (b"content-encoding", b"gzip")


@pytest.mark.parametrize("headers", [[SSE], [JSON], [JSON, GZIP], [SSE, GZIP], []])
def test_a_seat_is_held_to_the_last_byte(headers: Fields) -> None:
    async def scenario() -> None:
        engine = ScriptedApp(stream(3, interval_s=1.0, headers=headers))
        async with gateway(engine, max_in_flight=1) as sluice:
            first, second = sluice.start(), sluice.start()
            await first.next_chunk()
            assert (now(), sluice.in_flight, len(engine.seen)) == (0, 1, 1)
            assert (await first.response()).completed
            assert (await second.response()).completed
            assert [call.began_at for call in engine.seen] == [0, 3]

    run(scenario())


def test_a_seat_is_held_while_the_client_reads_slowly() -> None:
    async def scenario() -> None:
        body = b"x" * 100_000

        async def big(call: Call) -> None:
            await call.start()
            for _ in range(10):
                await call.chunk(body)
            await call.end()

        engine = ScriptedApp(big)
        async with gateway(engine, max_in_flight=1, queue_timeout=100) as sluice:
            slow = sluice.start()
            slow.stop_reading()
            second = sluice.start()
            await asyncio.sleep(50)
            assert (sluice.in_flight, len(engine.seen)) == (1, 1)
            slow.resume_reading()
            assert (await slow.response()).body == body * 10
            await second.response()
            assert engine.seen[1].began_at == 50

    run(scenario())


def test_a_client_that_does_not_read_holds_the_engine_back() -> None:
    async def scenario() -> None:
        sent = 0

        async def endless(call: Call) -> None:
            nonlocal sent
            await call.start()
            while True:
                await call.chunk(b"x" * 10_000)
                sent += 10_000
                await asyncio.sleep(0.001)

        engine = ScriptedApp(endless)
        async with gateway(engine) as sluice:
            exchange = sluice.start()
            await exchange.head()
            exchange.stop_reading(room_bytes=100_000)
            await asyncio.sleep(60)
            assert sent < 300_000  # buffers on both hops, and nothing that grows
            await leave(exchange)

    run(scenario())


def test_a_client_that_does_not_read_has_its_seat_for_the_total_timeout_at_most() -> None:
    async def scenario() -> None:
        async with endless_stream_of_5_s_at_most() as (engine, sluice):
            exchange = sluice.start({"stream": True})
            await exchange.head()
            exchange.stop_reading()
            await has_its_seat_for_5_s(engine, sluice)
            await exchange.ended()
            assert exchange.connection.aborted
            assert round(now()) == 65, "what is left to say waits as long as anything would"

    run(scenario())


def test_one_that_does_not_even_read_the_head_is_told_once_it_does() -> None:
    """As when it has sent one request after the other, and not read the first answer yet."""

    async def scenario() -> None:
        async with endless_stream_of_5_s_at_most() as (engine, sluice):
            exchange = sluice.start({"stream": True})
            exchange.stop_reading()
            await has_its_seat_for_5_s(engine, sluice)
            exchange.resume_reading()
            assert (await exchange.response()).status == 504

    run(scenario())


@contextlib.asynccontextmanager
async def endless_stream_of_5_s_at_most() -> AsyncIterator[tuple[ScriptedApp, Sluice]]:
    engine = ScriptedApp(stream(10_000, interval_s=0.01))
    timeouts = UpstreamTimeouts(total_s=5)
    async with gateway(engine, timeouts=timeouts, write_timeout=60) as sluice:
        yield engine, sluice


async def has_its_seat_for_5_s(engine: ScriptedApp, sluice: Sluice) -> None:
    await asyncio.sleep(4.9)
    assert (sluice.in_flight, engine.aborts) == (1, 0)
    await asyncio.sleep(0.2)
    assert (sluice.in_flight, engine.aborts) == (0, 1)


def test_events_are_passed_on_as_they_come() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(0.5, stream(4, interval_s=0.25)))
        async with gateway(engine) as sluice:
            exchange = sluice.start({"stream": True}, headers=[(b"accept-encoding", b"gzip")])
            came = []
            while chunk := await exchange.next_chunk():
                came.append((now(), chunk))
            assert came == [
                *((0.5 + 0.25 * n, b'data: {"n": %d}\n\n' % n) for n in range(4)),
                (1.5, DONE),
            ]

    run(scenario())


def test_headers_of_a_stream_do_not_wait_for_its_first_event() -> None:
    async def scenario() -> None:
        hold = Hold()

        async def head_first(call: Call) -> None:
            await call.start()
            await hold._open.wait()
            await call.end()

        engine = ScriptedApp(head_first)
        async with gateway(engine) as sluice:
            exchange = sluice.start({"stream": True})
            assert (await exchange.head()).status == 200
            hold.release()
            assert (await exchange.response()).completed

    run(scenario())


@pytest.mark.parametrize("headers", [[SSE], [(b"content-type", b"TEXT/event-stream")]])
def test_an_engine_that_dies_in_a_stream_leaves_an_event_and_no_clean_end(headers: Fields) -> None:
    async def scenario() -> None:
        engine = ScriptedApp(stream(3, interval_s=0.1, breaks_off=True, headers=headers))
        async with gateway(engine) as sluice:
            answer = await sluice.ask({"stream": True})
            assert not answer.completed
            assert b"[DONE]" not in answer.body
            events = answer.body.split(b"\n\n")[:3]
            assert events == [b'data: {"n": %d}' % number for number in range(3)]
            error = event_error(answer.body)
            assert (error["type"], error["code"]) == ("upstream_error", "upstream_closed")
            assert sluice.outcomes() == {"upstream_error": 1}
            (record,) = sluice.records
            assert (record.status, record.reason) == (200, "upstream_closed")
            assert record.duration_s == pytest.approx(0.3)  # the whole stream, not to its head
            await sluice.probe_capacity(engine)

    run(scenario())


@pytest.mark.parametrize("headers", [[JSON], [SSE, GZIP], [SSE, (b"content-length", b"9999")], []])
def test_an_engine_that_dies_in_another_body_leaves_it_cut_off_and_nothing_added(
    headers: Fields,
) -> None:
    async def scenario() -> None:
        engine = ScriptedApp(stream(3, breaks_off=True, headers=headers))
        async with gateway(engine) as sluice:
            answer = await sluice.ask()
            assert not answer.completed
            assert answer.body == b"".join(b'data: {"n": %d}\n\n' % n for n in range(3))
            assert sluice.outcomes() == {"upstream_error": 1}
            await sluice.probe_capacity(engine)

    run(scenario())


def test_an_event_cut_in_the_middle_does_not_swallow_the_error() -> None:
    async def scenario() -> None:
        async def half_an_event(call: Call) -> None:
            await call.start()
            await call.chunk(b'data: {"n": 0}\n\ndata: {"cho')
            raise BreaksOffError

        async with gateway(ScriptedApp(half_an_event)) as sluice:
            answer = await sluice.ask({"stream": True})
            *_, last = answer.body.strip(b"\n").split(b"\n\n")
            assert last.startswith(b'data: {"error":')

    run(scenario())


def test_ten_streams_that_break_are_ten_failures_and_no_success() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(stream(3, interval_s=1.0, breaks_off=True))
        async with gateway(engine, max_in_flight=10) as sluice:
            exchanges = [sluice.start({"stream": True}) for _ in range(10)]
            for exchange in exchanges:
                assert not (await exchange.response()).completed
            assert sluice.outcomes() == {"upstream_error": 10}
            durations = "sluice_request_duration_seconds"
            assert sluice.metric(f"{durations}_count") == 10
            assert sluice.metric(f"{durations}_sum") == pytest.approx(30)

    run(scenario())


def test_a_client_that_reads_nothing_of_a_broken_stream_is_dropped_in_the_end() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(stream(1, interval_s=5, breaks_off=True))
        async with gateway(engine, write_timeout=60) as sluice:
            exchange = sluice.start({"stream": True})
            await exchange.head()
            exchange.stop_reading()
            await asyncio.sleep(5)
            await settle()
            # The seat is free as soon as the engine is done, whatever the client does.
            assert sluice.in_flight == 0
            await exchange.ended()
            assert (now(), exchange.connection.aborted) == (65, True)
            assert sluice.outcomes() == {"upstream_error": 1}

    run(scenario())


@pytest.mark.parametrize(
    "events",
    [
        b'data: {"choices":[]}\n\ndata: [DONE]\n\n',
        b'data: {"choices":[]}\n\n',
        b'data: {"usage":{}}\n\ndata: [DONE]\n\n: trailing comment\n\n',
        b"event: response.failed\r\ndata: {}\r\n\r\n",
        "data: 你好 🙂\n\n".encode() + b"data: \xff\x00\n\n",
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_stream_is_passed_on_byte_for_byte_however_it_is_cut(events: bytes, size: int) -> None:
    async def scenario() -> None:
        async def cut(call: Call) -> None:
            await call.start()
            for start in range(0, len(events), size):
                await call.chunk(events[start : start + size])
                await asyncio.sleep(0.001)
            await call.end()

        async with gateway(ScriptedApp(cut)) as sluice:
            answer = await sluice.ask({"stream": True})
            assert answer.completed
            assert answer.body == events

    run(scenario())


def test_a_stream_kept_open_after_done_is_neither_cut_nor_kept_longer() -> None:
    async def scenario() -> None:
        async def lingers(call: Call) -> None:
            await call.start()
            await call.chunk(DONE)
            await asyncio.sleep(3)
            await call.end()

        async with gateway(ScriptedApp(lingers)) as sluice:
            answer = await sluice.ask({"stream": True})
            assert (answer.body, answer.completed, now()) == (DONE, True, 3)

    run(scenario())

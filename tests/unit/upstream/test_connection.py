"""The connection in virtual time, over a transport that the test plays."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

import pytest

from proxy.upstream.connection import HIGH_WATER_BYTES, Connection
from proxy.upstream.errors import (
    UpstreamClosedError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from proxy.upstream.lazy_deadline import LazyDeadline
from proxy.upstream.port import UpstreamRequest, UpstreamTimeouts
from proxy.upstream.response_parser import ResponseParser
from tests.support.fake_transport import FakeTransport
from tests.support.knots import no_knots_of
from tests.support.virtual_time import now, run, settle

if TYPE_CHECKING:
    from collections.abc import Coroutine

TIMEOUTS = UpstreamTimeouts(first_byte_s=600, idle_s=120)
ASK = UpstreamRequest("POST", b"/x", [(b"host", b"h")], b"{}")
BIG = UpstreamRequest("POST", b"/x", [(b"host", b"h")], b"x" * 400_000)
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
STREAM = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Line:
    """A connection, its transport, and what it told the pool."""

    def __init__(self, timeouts: UpstreamTimeouts = TIMEOUTS, *, takes_all: bool = True) -> None:
        self.unusable: list[Connection] = []
        loop = asyncio.get_running_loop()
        self.connection = Connection(loop, "engine:8000", timeouts, self.unusable.append)
        self.transport = FakeTransport(self.connection, takes_all=takes_all)

    def ask(self, request: UpstreamRequest = ASK, total_at: float = inf) -> asyncio.Task[None]:
        return asyncio.create_task(self.connection.ask(request, total_at))

    async def answered(self, *pieces: bytes) -> None:
        """One exchange whose head is there."""
        asking = self.ask()
        await settle()
        for piece in pieces:
            self.connection.data_received(piece)
        await asking

    async def close(self) -> None:
        self.connection.abort()
        await self.connection.lost


async def fails(waiting: Coroutine[None, None, object] | asyncio.Task[None]) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await waiting
    return caught.value


def test_an_answer_that_is_there_is_read_without_waiting() -> None:
    async def scenario() -> None:
        line = Line()
        await line.answered(OK)
        assert (line.connection.status, await line.connection.read()) == (200, b"ok")
        assert line.connection.is_exhausted
        assert await line.connection.read() == b""
        assert line.connection.is_reusable
        await line.close()

    run(scenario())


def test_one_connection_carries_one_exchange_after_another() -> None:
    async def scenario() -> None:
        line = Line()
        for _ in range(3):
            await line.answered(OK)
            assert await line.connection.read() == b"ok"
            assert line.connection.is_reusable
            line.connection.rest()
        assert len(line.transport.written) == 3
        await line.close()

    run(scenario())


def test_bytes_on_a_resting_connection_end_it() -> None:
    async def scenario() -> None:
        line = Line()
        await line.answered(OK)
        line.connection.rest()
        line.connection.data_received(b"\r\n")
        assert line.unusable == [line.connection]
        assert line.transport.aborts == 1
        await line.close()
        assert line.unusable == [line.connection], "told twice"

    run(scenario())


def test_an_engine_that_speaks_first_is_no_http_engine_and_is_said_to_be_none() -> None:
    """As SSH does, and not that it was we who closed."""

    async def scenario() -> None:
        line = Line()
        line.connection.data_received(b"SSH-2.0-OpenSSH_9.6\r\n")
        error = await fails(line.ask())
        assert isinstance(error, UpstreamProtocolError)
        assert "without being asked" in str(error)
        await line.close()

    run(scenario())


def test_an_abort_is_done_when_it_returns_and_tells_who_waits() -> None:
    async def scenario() -> None:
        line = Line()
        asking = line.ask()
        await settle()
        line.connection.abort(UpstreamClosedError("because"))
        assert line.transport.aborts == 1
        assert str(await fails(asking)) == "because"
        await line.connection.lost

    run(scenario())


def test_a_cancelled_wait_aborts() -> None:
    async def scenario() -> None:
        line = Line()
        asking = line.ask()
        await settle()
        asking.cancel()
        await settle()
        assert line.transport.aborts == 1
        assert asking.cancelled()

    run(scenario())


def test_a_connection_that_was_lost_unused_tells_so_when_asked() -> None:
    async def scenario() -> None:
        line = Line()
        line.transport.lose(None)
        await line.connection.lost
        error = await fails(line.ask())
        assert isinstance(error, UpstreamClosedError)
        assert not line.connection.has_answered
        assert line.transport.written == []

    run(scenario())


def test_one_that_is_over_is_gone_without_the_collector() -> None:
    async def scenario() -> None:
        line = Line()
        await line.answered(OK)
        await line.connection.read()
        await line.close()
        vars(line.transport).clear()  # as a real one lets go of its protocol
        line.unusable.clear()

    with no_knots_of(Connection, LazyDeadline, ResponseParser):
        run(scenario())


def test_one_that_was_never_made_is_gone_without_the_collector() -> None:
    """As where nobody listens: uvloop has its protocol made before it connects."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        Connection(loop, "engine:8000", TIMEOUTS, lambda _: None).abort()

    with no_knots_of(Connection, LazyDeadline, ResponseParser):
        run(scenario())


@pytest.mark.parametrize("received", [b"", b"H", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_it_says_whether_a_byte_of_an_answer_had_come(received: bytes) -> None:
    async def scenario() -> None:
        line = Line()
        await line.answered(OK)
        line.connection.rest()
        asking = line.ask()
        await settle()
        if received:
            line.connection.data_received(received)
        line.connection.connection_lost(ConnectionResetError(104, "Connection reset by peer"))
        assert "Connection reset by peer" in str(await fails(asking))
        assert line.connection.has_answered is bool(received)

    run(scenario())


def test_a_malformed_answer_aborts() -> None:
    async def scenario() -> None:
        line = Line()
        asking = line.ask()
        await settle()
        line.connection.data_received(b"garbage\r\n")
        assert isinstance(await fails(asking), UpstreamProtocolError)
        assert line.transport.aborts == 1
        await line.connection.lost

    run(scenario())


class NoRoom(ResponseParser):
    """Has no memory left for what the engine sends."""

    __slots__ = ()

    def on_header(self, name: bytes, value: bytes) -> None:
        if name == b"x-large":
            raise MemoryError
        super().on_header(name, value)

    def on_body(self, data: bytes) -> None:
        if data == b"large":
            raise MemoryError
        super().on_body(data)


def test_a_fault_of_ours_is_not_told_as_the_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a 502, and the engine was blamed for what we have no memory for."""
    monkeypatch.setattr("proxy.upstream.connection.ResponseParser", NoRoom)

    async def scenario() -> None:
        in_head, in_body, taking = Line(), Line(), Line()
        asking = in_head.ask()
        await settle()
        in_head.connection.data_received(OK.replace(b"\r\n\r\n", b"\r\nx-large: 1\r\n\r\n"))
        with pytest.raises(MemoryError):
            await asking

        await in_body.answered(STREAM)
        reading = asyncio.create_task(in_body.connection.read())
        await taking.answered(STREAM + b"2\r\nok\r\n")
        passing = asyncio.create_task(taking.connection.pass_to(lambda *_: True, _no_room_needed))
        await settle()
        for line, waiting in ((in_body, reading), (taking, passing)):
            line.connection.data_received(b"5\r\nlarge\r\n5\r\nlarge\r\n")
            with pytest.raises(MemoryError):
                await waiting
        for line in (in_head, in_body, taking):
            assert line.transport.aborts == 1
            await line.connection.lost

    run(scenario())


def test_the_end_of_the_stream_ends_a_body_without_framing() -> None:
    async def scenario() -> None:
        line = Line()
        await line.answered(b"HTTP/1.1 200 OK\r\n\r\nabc")
        assert await line.connection.read() == b"abc"
        line.connection.eof_received()
        assert await line.connection.read() == b""
        assert not line.connection.is_reusable
        await line.close()

    run(scenario())


# Backpressure.


def test_reading_stops_while_enough_waits_and_goes_on_when_it_was_taken() -> None:
    async def scenario() -> None:
        line = Line()
        piece = b"%x\r\n%b\r\n" % (HIGH_WATER_BYTES, b"x" * HIGH_WATER_BYTES)
        await line.answered(STREAM, piece)
        assert line.transport.is_reading
        line.connection.data_received(b"1\r\ny\r\n")
        assert not line.transport.is_reading
        assert len(await line.connection.read()) == HIGH_WATER_BYTES + 1
        assert line.transport.is_reading
        await line.close()

    run(scenario())


def test_a_connection_that_was_left_with_a_full_buffer_is_not_reusable() -> None:
    """It would never hear the next answer, and hold a seat until the first-byte timeout."""

    async def scenario() -> None:
        line = Line()
        size = HIGH_WATER_BYTES + 1
        await line.answered(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
        assert not line.transport.is_reading
        assert not line.connection.is_reusable
        assert len(await line.connection.read()) == size
        assert line.transport.is_reading
        assert line.connection.is_reusable
        await line.close()

    run(scenario())


def test_a_request_that_was_not_taken_whole_leaves_no_reusable_connection() -> None:
    async def scenario() -> None:
        line = Line(takes_all=False)
        asking = line.ask(BIG)
        await settle()
        line.connection.data_received(OK)
        await asking
        assert await line.connection.read() == b"ok"
        assert not line.connection.is_reusable
        await line.close()

    run(scenario())


def test_the_rest_of_a_request_follows_while_its_answer_is_read() -> None:
    async def scenario() -> None:
        line = Line(takes_all=False)
        asking = line.ask(BIG)
        await settle()
        line.connection.data_received(STREAM)
        await asking
        while line.transport.unsent_bytes:
            line.transport.take(line.transport.unsent_bytes)
        assert b"".join(line.transport.written).endswith(BIG.body)
        line.connection.data_received(b"0\r\n\r\n")
        assert line.connection.is_reusable
        await line.close()

    run(scenario())


# Deadlines.


def test_the_first_byte_is_waited_for_from_the_moment_the_request_is_sent() -> None:
    async def scenario() -> None:
        line = Line(takes_all=False)
        asking = line.ask()
        await asyncio.sleep(100)
        line.transport.take(line.transport.unsent_bytes)
        error = await fails(asking)
        assert now() == 100 + 600
        assert isinstance(error, UpstreamTimeoutError)
        assert str(error) == "engine at engine:8000: it did not answer within 600 s"

    run(scenario())


def test_interim_heads_do_not_put_the_first_byte_off() -> None:
    async def scenario() -> None:
        line = Line()
        asking = line.ask()
        for _ in range(5):
            await asyncio.sleep(110)
            line.connection.data_received(b"HTTP/1.1 102 Processing\r\n\r\n")
        await fails(asking)
        assert now() == 600

    run(scenario())


def test_a_head_that_has_begun_may_pause_as_long_as_a_body_may() -> None:
    async def scenario() -> None:
        line = Line()
        asking = line.ask()
        await asyncio.sleep(550)
        line.connection.data_received(b"HTTP/1.1 200")
        await asyncio.sleep(100)
        line.connection.data_received(b" OK\r\n")
        error = await fails(asking)
        assert now() == 550 + 100 + 120
        assert "it fell silent for 120 s in the middle of its response head" in str(error)

    run(scenario())


def test_a_body_may_pause_for_the_idle_timeout_and_no_longer() -> None:
    async def scenario() -> None:
        line = Line()
        await line.answered(STREAM)
        for _ in range(3):
            reading = asyncio.create_task(line.connection.read())
            await asyncio.sleep(119)
            line.connection.data_received(b"1\r\nx\r\n")
            assert await reading == b"x"
        error = await fails(line.connection.read())
        assert now() == 3 * 119 + 120
        assert "it fell silent for 120 s before its response was complete" in str(error)
        assert not error.is_ours

    run(scenario())


def test_time_that_nobody_waits_is_not_the_engines() -> None:
    async def scenario() -> None:
        line = Line()
        await line.answered(STREAM)
        await asyncio.sleep(10_000)
        line.connection.data_received(b"1\r\nx\r\n")
        await asyncio.sleep(10_000)
        assert await line.connection.read() == b"x"
        await fails(line.connection.read())
        assert now() == 20_120

    run(scenario())


def test_an_engine_that_takes_nothing_is_given_up_at_the_idle_timeout() -> None:
    async def scenario() -> None:
        line = Line(takes_all=False)
        error = await fails(line.ask(BIG))
        assert now() == 120
        assert "it did not read our request for 120 s" in str(error)

    run(scenario())


def test_an_engine_that_takes_little_is_not_given_up() -> None:
    async def scenario() -> None:
        line = Line(takes_all=False)
        asking = line.ask(BIG)
        for _ in range(10):
            await asyncio.sleep(100)
            line.transport.take(10)
        assert not asking.done()
        await fails(asking)
        assert 1000 + 120 <= now() <= 1000 + 240

    run(scenario())


def test_the_total_timeout_ends_the_wait_for_a_head_and_is_not_the_engines() -> None:
    async def scenario() -> None:
        line = Line(UpstreamTimeouts(total_s=300))
        asking = line.ask(total_at=now() + 300)
        error = await fails(asking)
        assert (now(), "longer than 300 s" in str(error), error.is_ours) == (300, True, True)

    run(scenario())


def test_a_resting_connection_has_no_deadline() -> None:
    async def scenario() -> None:
        line = Line(UpstreamTimeouts(total_s=300))
        asking = line.ask(total_at=300)
        await settle()
        line.connection.data_received(OK)
        await asking
        line.connection.rest()
        await asyncio.sleep(100_000)
        assert line.connection.is_reusable
        await line.close()

    run(scenario())


def test_the_beginning_of_a_chunks_head_is_no_piece_of_the_body() -> None:
    async def scenario() -> None:
        line = Line()
        taken: list[tuple[bytes, bool]] = []

        def take(data: bytes, is_last: bool) -> bool:
            taken.append((data, is_last))
            return True

        await line.answered(STREAM)
        passing = asyncio.create_task(line.connection.pass_to(take, _no_room_needed))
        await settle()
        line.connection.data_received(b"3\r")
        assert taken == []
        line.connection.data_received(b"\nabc\r\n0\r\n\r\n")
        line.connection.data_received(b"surplus")
        await passing
        assert taken == [(b"abc", True)], "what comes after the end is nobody's"
        assert not line.connection.is_reusable
        await line.close()

    run(scenario())


def test_chunks_that_come_whole_and_in_pieces_make_one_body() -> None:
    async def scenario() -> None:
        line = Line()
        taken: list[tuple[bytes, bool]] = []

        def take(data: bytes, is_last: bool) -> bool:
            taken.append((data, is_last))
            return True

        await line.answered(STREAM)
        passing = asyncio.create_task(line.connection.pass_to(take, _no_room_needed))
        await settle()
        for data in (
            b"1\r\na\r\n",
            b"1\r\nb\r\n",  # whole, between two chunks: past the parser
            b"A\r\n1\r\n",
            b"1\r\nc\r\n",  # whole, but inside a chunk: its bytes
            b"d\r\n",
            b"1\r\ne\r\n",
            b"0\r\n\r\n",
        ):
            line.connection.data_received(data)
        await passing
        body = b"".join(data for data, _ in taken)
        assert body == b"ab" + b"1\r\n1\r\nc\r\nd" + b"e"
        assert [is_last for _, is_last in taken] == [False] * (len(taken) - 1) + [True]
        assert line.connection.is_reusable
        await line.close()

    run(scenario())


def test_a_malformed_chunk_behind_whole_ones_breaks_the_body() -> None:
    async def scenario() -> None:
        line = Line()
        taken: list[bytes] = []

        def take(data: bytes, _is_last: bool) -> bool:
            taken.append(data)
            return True

        await line.answered(STREAM)
        passing = asyncio.create_task(line.connection.pass_to(take, _no_room_needed))
        await settle()
        for data in (b"1\r\na\r\n", b"1\r\nb\r\n", b"1\r\nno end\r\n"):
            line.connection.data_received(data)
        with pytest.raises(UpstreamProtocolError):
            await passing
        assert b"".join(taken).startswith(b"ab")

    run(scenario())


def test_a_long_answer_to_a_slow_client_leaves_its_connection_reading() -> None:
    async def scenario() -> None:
        line = Line()
        room = asyncio.Event()
        await line.answered(STREAM)

        async def until_room() -> None:
            await room.wait()

        taken: list[bytes] = []

        def take(data: bytes, _is_last: bool) -> bool:
            taken.append(data)
            return room.is_set()

        passing = asyncio.create_task(line.connection.pass_to(take, until_room))
        await settle()
        line.connection.data_received(b"1\r\na\r\n")
        await settle()
        piece = b"x" * (HIGH_WATER_BYTES + 1)
        line.connection.data_received(b"%x\r\n%b\r\n0\r\n\r\n" % (len(piece), piece))
        room.set()
        await passing
        assert b"".join(taken) == b"a" + piece
        assert line.connection.is_reusable
        await line.close()

    run(scenario())


async def _no_room_needed() -> None:
    raise AssertionError("there was room")

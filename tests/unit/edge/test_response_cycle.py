"""What an answer looks like on the wire, and that no event is taken out of its place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.edge.entrance import WrittenAnswer
from proxy.edge.response_cycle import BODY_FOLLOWS, write_head
from tests.support.fake_wire import Wire
from tests.support.virtual_time import run, settle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Message, Receive, Scope, Send

LENGTH_2 = (b"content-length", b"2")


def start(*headers: tuple[bytes, bytes], status: int = 200, follows: bool = False) -> Message:
    return {
        "type": "http.response.start",
        "status": status,
        "headers": list(headers),
        BODY_FOLLOWS: follows,
    }


def body(data: bytes = b"", *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


class Speaking:
    """An app that sends these events, and keeps what was raised at one of them."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._messages = list(messages)
        self.error: RuntimeError | None = None

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        try:
            for message in self._messages:
                await send(message)
        except RuntimeError as error:
            self.error = error
            raise


class Turnstile:
    """An app that has its answer at once."""

    def __init__(self, whole: WrittenAnswer) -> None:
        self._whole = whole

    def enter(self, _scope: Scope, _receive: Receive, _send: Send) -> WrittenAnswer:
        return self._whole

    async def __call__(self, _scope: Scope, _receive: Receive, _send: Send) -> None:
        raise AssertionError("asked for twice")


async def answer(
    *messages: Message, method: bytes = b"GET", version: bytes = b"1.1", more: bytes = b""
) -> tuple[Wire, RuntimeError | None]:
    app = Speaking(messages)
    wire = Wire(app)
    wire.receives(method + b" / HTTP/" + version + b"\r\nhost: x\r\n" + more + b"\r\n")
    await wire.done()
    return wire, app.error


def check_kept(wire: Wire, sent: bytes) -> None:
    assert wire.sent == sent
    assert wire.ended == []
    wire.client_leaves()


@pytest.mark.parametrize("length", [b"2", b"0" * 5000 + b"2"])
def test_an_answer_with_a_length_is_sent_as_it_is(length: bytes) -> None:
    async def scenario() -> None:
        head = start((b"X-A", b"1"), (b"content-length", length))
        wire, _ = await answer(head, body(b"o", more=True), body(b"k"))
        check_kept(wire, b"HTTP/1.1 200 OK\r\nX-A: 1\r\ncontent-length: %b\r\n\r\nok" % length)

    run(scenario())


def test_an_answer_of_unknown_length_is_chunked() -> None:
    async def scenario() -> None:
        wire, _ = await answer(start(), body(b"ab", more=True), body(b"", more=True), body(b"c"))
        chunks = b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
        check_kept(wire, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks)

    run(scenario())


@pytest.mark.parametrize("headers", [[], [LENGTH_2]])
@pytest.mark.parametrize("follows", [True, False])
def test_head_and_first_piece_share_a_write_when_the_app_says_that_it_follows(
    headers: list[tuple[bytes, bytes]], follows: bool
) -> None:
    async def scenario() -> None:
        wire, _ = await answer(start(*headers, follows=follows), body(b"ok"))
        assert len(wire.transport.written) == (1 if follows else 2)
        assert wire.sent.startswith(b"HTTP/1.1 200 OK\r\n")
        wire.client_leaves()

    run(scenario())


def test_a_head_that_was_kept_back_is_sent_with_an_empty_piece_too() -> None:
    async def scenario() -> None:
        wire, _ = await answer(start(LENGTH_2, follows=True), body(b"", more=True), body(b"ok"))
        check_kept(wire, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    run(scenario())


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_has_no_body_has_no_framing(status: int) -> None:
    async def scenario() -> None:
        wire, _ = await answer(start(status=status), body())
        head, _, rest = wire.sent.partition(b"\r\n\r\n")
        assert head.count(b"\r\n") == 0
        assert rest == b""
        wire.client_leaves()

    run(scenario())


@pytest.mark.parametrize("headers", [[], [LENGTH_2]])
def test_an_answer_to_head_keeps_its_length_and_leaves_the_body_out(
    headers: list[tuple[bytes, bytes]],
) -> None:
    async def scenario() -> None:
        wire, error = await answer(start(*headers), body(b"ok"), method=b"HEAD")
        assert error is None
        length = b"content-length: 2\r\n" if headers else b""
        check_kept(wire, b"HTTP/1.1 200 OK\r\n" + length + b"\r\n")

    run(scenario())


@pytest.mark.parametrize("value", [b"close", b"Close", b"close, x"])
def test_an_answer_may_end_its_connection(value: bytes) -> None:
    async def scenario() -> None:
        wire, _ = await answer(start((b"Connection", value), LENGTH_2), body(b"ok"))
        assert wire.sent.lower().count(b"connection:") == 1
        assert wire.ended == ["close"]

    run(scenario())


def test_a_client_that_wants_its_connection_closed_is_told_so() -> None:
    async def scenario() -> None:
        wire, _ = await answer(start(LENGTH_2), body(b"ok"), more=b"connection: close\r\n")
        assert b"connection: close\r\n" in wire.sent
        assert wire.ended == ["close"]

    run(scenario())


def test_an_old_client_has_its_connection_closed() -> None:
    async def scenario() -> None:
        wire, _ = await answer(start(LENGTH_2), body(b"ok"), version=b"1.0")
        assert b"connection: close\r\n" in wire.sent
        assert wire.ended == ["close"]

    run(scenario())


@pytest.mark.parametrize(
    "messages",
    [
        [body(b"x")],
        [start(), start()],
        [start(LENGTH_2), body(b"ok"), body(b"more")],
        [start(LENGTH_2), body(b"too long")],
        [start(LENGTH_2), body(b"ok", more=True), body(b"x", more=True)],
        [start(LENGTH_2), body(b"x")],
        [start(LENGTH_2), body()],
        [start(), {"type": "http.response.trailers"}],
        [{"type": "websocket.accept"}],
    ],
)
def test_an_event_out_of_place_is_an_error(messages: list[Message]) -> None:
    async def scenario() -> None:
        wire, error = await answer(*messages)
        assert error is not None
        wire.client_leaves()

    run(scenario())


@pytest.mark.parametrize("data", [b"", b"x"])
def test_a_body_shorter_than_its_length_is_no_complete_answer(data: bytes) -> None:
    async def scenario() -> None:
        wire, _ = await answer(start(LENGTH_2), body(data))
        assert wire.sent.partition(b"\r\n\r\n")[2] == b""
        assert wire.ended == ["close"]

    run(scenario())


@pytest.mark.parametrize(
    "field",
    [
        (b"x-a", b"1\r\nx-evil: 2"),
        (b"x-a", b"1\nx-evil: 2"),
        (b"x-a", b"1\rx-evil: 2"),
        (b"x-a: 1\r\nx-evil", b"2"),
    ],
)
def test_no_field_can_smuggle_in_another(field: tuple[bytes, bytes]) -> None:
    async def scenario() -> None:
        wire, error = await answer(start(field, LENGTH_2), body(b"ok"))
        assert error is not None
        assert b"x-evil" not in wire.sent
        wire.client_leaves()

    run(scenario())


def test_an_app_waits_while_the_client_does_not_read() -> None:
    async def scenario() -> None:
        may_send = asyncio.Event()

        async def big(_scope: Scope, _receive: Receive, send: Send) -> None:
            await send(start(LENGTH_2))
            await may_send.wait()
            await send(body(b"ok"))

        wire = Wire(big)
        wire.receives(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await settle()
        wire.protocol.pause_writing()
        may_send.set()
        await settle()
        assert not wire.sent.endswith(b"ok")
        wire.protocol.resume_writing()
        await wire.done()
        assert wire.sent.endswith(b"\r\n\r\nok")
        wire.client_leaves()

    run(scenario())


def test_what_is_sent_to_a_client_that_has_left_goes_nowhere_and_does_not_wait() -> None:
    async def scenario() -> None:
        has_left = asyncio.Event()
        sent = 0

        async def late(_scope: Scope, _receive: Receive, send: Send) -> None:
            nonlocal sent
            await send(start(LENGTH_2))
            await has_left.wait()
            for _ in range(3):
                await send(body(b"ok", more=True))
                sent += 1

        wire = Wire(late)
        wire.receives(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await settle()
        wire.protocol.pause_writing()
        wire.client_leaves()
        has_left.set()
        await wire.done()
        assert wire.sent.endswith(b"\r\n\r\n")
        assert sent == 3

    run(scenario())


def test_a_client_that_asked_first_is_told_to_go_on_only_when_the_body_is_wanted() -> None:
    async def scenario() -> None:
        async def wants_it(_scope: Scope, receive: Receive, send: Send) -> None:
            message = await receive()
            await send(start(LENGTH_2))
            await send(body(message["body"]))

        asks = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n"
        wire = Wire(wants_it)
        wire.receives(asks)
        await settle()
        assert wire.sent == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.receives(b"ok")
        await wire.done()
        assert wire.sent.endswith(b"\r\n\r\nok")
        wire.client_leaves()

        refusing, _ = await answer(
            start(LENGTH_2, status=413), body(b"no"), more=b"expect: 100-continue\r\n"
        )
        assert b"100 Continue" not in refusing.sent
        refusing.client_leaves()

    run(scenario())


@pytest.mark.parametrize(("method", "body_bytes"), [(b"GET", b"no"), (b"HEAD", b"")])
def test_a_whole_answer_is_one_write_and_the_connection_is_kept(
    method: bytes, body_bytes: bytes
) -> None:
    async def scenario() -> None:
        wire = Wire(
            Turnstile(WrittenAnswer(write_head(503, [LENGTH_2, (b"x-why", b"full")]), b"no"))
        )
        for _ in range(2):
            wire.receives(method + b" / HTTP/1.1\r\nhost: x\r\n\r\n")
        head = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\nx-why: full\r\n\r\n"
        assert wire.transport.written == [head + body_bytes] * 2
        check_kept(wire, wire.sent)

    run(scenario())


def test_a_whole_answer_says_that_its_connection_is_not_kept() -> None:
    async def scenario() -> None:
        wire = Wire(Turnstile(WrittenAnswer(write_head(503, [LENGTH_2]), b"no")))
        wire.receives(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        head, _, sent = wire.sent.partition(b"\r\n\r\n")
        assert head.endswith(b"\r\nconnection: close")
        assert (sent, wire.ended) == (b"no", ["close"])

    run(scenario())


@pytest.mark.parametrize("value", [b"a\nb", b"a\rb", b"a\r\nset-cookie: b"])
def test_no_head_is_written_with_a_field_that_would_end_too_early(value: bytes) -> None:
    with pytest.raises(RuntimeError, match="would not be read as it was meant"):
        write_head(503, [(b"x-why", value)])

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from proxy.openai_api.blocks import Blocks
from proxy.upstream.port import UpstreamRequest
from proxy.upstream.request_sender import SLICE_BYTES, RequestSender, encode_head, framing_fields
from tests.support.fake_transport import FakeTransport

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = b"POST / HTTP/1.1\r\n\r\n"


class Turns:
    """Of an event loop; each lets run what was put off before it."""

    def __init__(self) -> None:
        self.put_off: list[Callable[[], None]] = []
        self.loop = cast("asyncio.AbstractEventLoop", self)

    def call_soon(self, callback: Callable[[], None]) -> object:
        self.put_off.append(callback)
        return callback

    def next(self) -> None:
        now, self.put_off = self.put_off, []
        for callback in now:
            callback()


class Sending(asyncio.Protocol):
    """A sender over a transport that takes everything, or nothing until told."""

    def __init__(self, *, takes_all: bool = True) -> None:
        self.transport = FakeTransport(self, takes_all=takes_all)
        self.transport.set_write_buffer_limits(high=0)
        self.turns = Turns()
        self.sender = RequestSender(self.transport, self.transport, self.turns.loop)

    def pause_writing(self) -> None:
        self.sender.pause()

    def resume_writing(self) -> None:
        self.sender.resume()


def test_head_and_small_body_leave_in_one_write() -> None:
    sending = Sending()
    sending.sender.start(HEAD, b"{}")
    assert sending.transport.written == [HEAD + b"{}"]
    assert sending.sender.is_done


def test_a_request_without_body_is_its_head() -> None:
    sending = Sending()
    sending.sender.start(HEAD, b"")
    assert sending.transport.written == [HEAD]


def test_a_large_body_leaves_in_slices_one_after_the_other() -> None:
    sending = Sending(takes_all=False)
    body = bytes(range(256)) * (SLICE_BYTES // 128)
    sending.sender.start(HEAD, body + b"rest")
    for writes in (1, 2, 3):
        assert len(sending.transport.written) == writes
        assert not sending.sender.is_done
        sending.transport.take(sending.transport.unsent_bytes)
    assert sending.sender.is_done
    assert b"".join(sending.transport.written) == HEAD + body + b"rest"
    assert max(map(len, sending.transport.written)) <= SLICE_BYTES + len(HEAD)


def test_a_large_body_that_is_taken_at_once_is_written_at_once() -> None:
    sending = Sending()
    sending.sender.start(HEAD, b"x" * (3 * SLICE_BYTES))
    assert sending.sender.is_done
    assert sum(map(len, sending.transport.written)) == len(HEAD) + 3 * SLICE_BYTES


def test_of_a_body_that_is_taken_as_fast_as_it_is_written_each_turn_of_the_loop_writes_a_part() -> (
    None
):
    sending = Sending()
    body = bytes(range(256)) * (5 * SLICE_BYTES // 256) + b"rest"
    sending.sender.start(HEAD, body * 2)
    turns = 0
    while not sending.sender.is_done:
        before = sum(map(len, sending.transport.written))
        sending.turns.next()
        turns += 1
        assert sum(map(len, sending.transport.written)) - before <= 2 * SLICE_BYTES
    assert turns == 4
    assert b"".join(sending.transport.written) == HEAD + body * 2


def test_an_engine_that_pauses_and_goes_on_between_two_turns_gets_every_slice_once() -> None:
    sending = Sending()
    body = bytes(range(256)) * (20 * SLICE_BYTES // 256)
    sending.sender.start(HEAD, body)
    while not sending.sender.is_done:
        sending.sender.pause()
        sending.sender.resume()
        assert len(sending.turns.put_off) == 1
        sending.turns.next()
    assert b"".join(sending.transport.written) == HEAD + body


def test_a_stopped_sender_writes_nothing_in_its_next_turn() -> None:
    sending = Sending()
    sending.sender.start(HEAD, b"x" * (20 * SLICE_BYTES))
    sending.sender.stop()
    written = len(sending.transport.written)
    sending.turns.next()
    assert len(sending.transport.written) == written
    assert not sending.turns.put_off


def test_a_body_in_blocks_leaves_in_slices_of_them() -> None:
    sending = Sending(takes_all=False)
    blocks = [b"a" * (SLICE_BYTES + 1), b"b", b"c" * SLICE_BYTES]
    sending.sender.start(HEAD, Blocks(blocks))
    while not sending.sender.is_done:
        assert len(sending.transport.written[-1]) <= SLICE_BYTES + len(HEAD)
        sending.transport.take(sending.transport.unsent_bytes)
    assert b"".join(sending.transport.written) == HEAD + b"".join(blocks)


def test_a_small_body_in_blocks_is_sent_too() -> None:
    sending = Sending()
    sending.sender.start(HEAD, Blocks([b"a", b"b"]))
    assert sending.sender.is_done
    assert b"".join(sending.transport.written) == HEAD + b"ab"


def test_a_request_is_not_done_while_its_last_bytes_wait() -> None:
    sending = Sending(takes_all=False)
    sending.sender.start(HEAD, b"{}")
    assert not sending.sender.is_done
    assert sending.sender.unsent_bytes > 0
    sending.transport.take(sending.transport.unsent_bytes)
    assert sending.sender.is_done


def test_a_request_over_tls_is_not_done_while_tcp_still_holds_some_of_it() -> None:
    """TLS passes whole writes down and says nothing when the socket does not take them."""
    above, below = Sending(), Sending(takes_all=False)
    sender = RequestSender(above.transport, below.transport, above.turns.loop)
    below.transport.write(b"encrypted")
    assert not sender.is_done
    below.transport.take(len(b"encrypted"))
    assert sender.is_done


def test_a_stopped_sender_writes_nothing_more() -> None:
    sending = Sending(takes_all=False)
    sending.sender.start(HEAD, b"x" * (2 * SLICE_BYTES))
    sending.sender.stop()
    sending.transport.take(sending.transport.unsent_bytes)
    assert len(sending.transport.written) == 1


def test_a_head_is_written_as_it_was_given() -> None:
    request = UpstreamRequest("POST", b"/v1/x?a=b", [(b"Host", b"h"), (b"x", b"")], b"{}")
    assert encode_head(request) == (
        b"POST /v1/x?a=b HTTP/1.1\r\nHost: h\r\nx: \r\ncontent-length: 2\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("method", "body", "framing"),
    [
        ("GET", b"", []),
        ("HEAD", b"", []),
        ("DELETE", b"", []),
        ("DELETE", b"x", [(b"content-length", b"1")]),
        ("POST", b"", [(b"content-length", b"0")]),
        ("PATCH", b"", [(b"content-length", b"0")]),
    ],
)
def test_a_length_is_said_where_a_body_is_sent_or_expected(
    method: str, body: bytes, framing: list[tuple[bytes, bytes]]
) -> None:
    assert framing_fields(UpstreamRequest(method, b"/", [], body)) == framing


@pytest.mark.parametrize(
    ("method", "target", "field"),
    [
        ("GE T", b"/", (b"x", b"y")),
        ("", b"/", (b"x", b"y")),
        ("GÉT", b"/", (b"x", b"y")),
        ("GET", b"/a b", (b"x", b"y")),
        ("GET", b"/\r\nx: y", (b"x", b"y")),
        ("GET", b"/\x7f", (b"x", b"y")),
        ("GET", b"/", (b"x", b"y\r\nz: 1")),
        ("GET", b"/", (b"x", b"y\nz: 1")),
        ("GET", b"/", (b"x", b"y\rz: 1")),
        ("GET", b"/", (b"x\r\nz", b"y")),
        ("GET", b"/", (b"x", b"y\0")),
    ],
)
def test_a_head_that_could_be_read_as_something_else_is_refused(
    method: str, target: bytes, field: tuple[bytes, bytes]
) -> None:
    with pytest.raises(ValueError, match="would not be read as it was meant"):
        encode_head(UpstreamRequest(method, target, [field]))

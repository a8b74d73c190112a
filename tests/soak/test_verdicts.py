"""What a client may see, and what it must never see."""

from __future__ import annotations

import pytest

from tests.soak.behaviours import verdict
from tests.soak.wire import Wire

HEAD = b"HTTP/1.1 %d X\r\nServer: any\r\n%b\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked"
EVENT = b'19\r\ndata: {"choices": [{}]}\n\n\r\n'
DONE = b"e\r\ndata: [DONE]\n\n\r\n"
END = b"0\r\n\r\n"
ERROR = b'1b\r\ndata: {"error": {"a": "b"}}\n\n\r\n'


def answered(*pieces: bytes) -> Wire:
    wire = Wire()
    for piece in pieces:
        wire.data_received(piece)
    return wire


def stream(*pieces: bytes) -> str:
    whole = HEAD % (200, CHUNKED)
    return verdict(answered(whole, *pieces).answer, asked_for_stream=True)


def plain(status: int, body: bytes, fields: bytes = b"", length: int | None = None) -> str:
    head = HEAD % (status, fields + b"Content-Length: %d" % (length or len(body)))
    return verdict(answered(head + body).answer, asked_for_stream=False)


def test_a_stream_that_ends_with_done_is_ok() -> None:
    assert stream(EVENT, DONE, END) == "ok"
    assert stream(EVENT + DONE + END) == "ok"


def test_one_that_breaks_off_is_an_honest_break_with_its_error_event_or_without() -> None:
    assert stream(EVENT) == "broken off"
    assert stream(EVENT, ERROR) == "broken off"
    assert stream(EVENT, DONE) == "broken off"


def test_one_that_says_that_it_is_whole_and_is_not_must_not_be() -> None:
    assert stream(EVENT, END) == "!an end without [DONE]"
    assert stream(EVENT, ERROR, END) == "!an end without [DONE]"


def test_what_the_engine_says_of_itself_passes() -> None:
    assert stream(EVENT, ERROR, DONE, END) == "the engine's own error"


@pytest.mark.parametrize(
    ("status", "body", "fields", "length", "found"),
    [
        (200, b'{"id": 1}', b"", None, "ok"),
        (200, b'{"id', b"", None, "!an end in the middle of the JSON"),
        (200, b'{"id', b"", 9, "broken off"),
        (503, b"{}", b"Retry-After: 3\r\n", None, "refused"),
        (503, b"{}", b"", None, "!refused without Retry-After"),
        (503, b"{", b"Retry-After: 3\r\n", 2, "!a refusal in part"),
        (502, b"{}", b"", None, "error 502"),
        (502, b"{", b"", 2, "!an error in part"),
    ],
)
def test_of_an_answer_with_a_length(
    status: int, body: bytes, fields: bytes, length: int | None, found: str
) -> None:
    assert plain(status, body, fields, length) == found


def test_no_answer_at_all_must_not_be() -> None:
    assert verdict(answered(b"HTTP/1.1 200").answer, asked_for_stream=False) == "!no answer"


def test_a_head_in_two_pieces_is_read_as_one() -> None:
    wire = answered(b"HTTP/1.1 200 OK\r\nContent-Le", b"ngth: 2\r\n\r\n{", b"}")
    assert wire.answer.is_whole
    assert verdict(wire.answer, asked_for_stream=False) == "ok"

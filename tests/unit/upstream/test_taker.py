from __future__ import annotations

import pytest

from proxy.upstream.response_parser import ResponseParser
from proxy.upstream.taker import Taker


def response(*pieces: bytes) -> ResponseParser:
    """Fed the pieces of a chunked response, head first."""
    parser = ResponseParser()
    parser.feed(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for piece in pieces:
        parser.feed(piece)
    return parser


class Takes(list[tuple[bytes, bool]]):
    """What was taken; `room` is the answer."""

    room = True

    def __call__(self, data: bytes, is_last: bool) -> bool:
        self.append((data, is_last))
        return self.room


def test_what_waits_is_given_in_one_piece() -> None:
    takes = Takes()
    taker = Taker(takes)
    taker.give(response(b"1\r\na\r\n", b"1\r\nb\r\n"))
    assert takes == [(b"ab", False)]
    assert not taker.has_news


def test_the_last_piece_may_be_empty_and_is_news() -> None:
    takes = Takes()
    taker = Taker(takes)
    taker.give(response(b"0\r\n\r\n"))
    assert takes == [(b"", True)]
    assert taker.is_done
    assert taker.has_news


def test_a_taker_without_room_is_news() -> None:
    takes = Takes()
    takes.room = False
    taker = Taker(takes)
    taker.give(response(b"1\r\na\r\n"))
    assert not taker.has_room
    assert taker.has_news


def test_an_error_in_a_callback_is_kept_for_the_task() -> None:
    def refuse(_data: bytes, _is_last: bool) -> bool:
        raise RuntimeError("no")

    taker = Taker(refuse)
    taker.raise_error()
    taker.give_in_callback(response(b"1\r\na\r\n"))
    assert taker.has_news
    with pytest.raises(RuntimeError, match="no"):
        taker.raise_error()

"""The parser that goes on where the first one skips."""

from __future__ import annotations

import httptools
import pytest

from proxy.edge.upgrade_body import announces_body, body_parser


class Heard:
    def __init__(self) -> None:
        self.body = b""
        self.complete = False

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete = True


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], False),
        ([(b"content-length", b"0")], False),
        ([(b"content-length", b"1")], True),
        ([(b"transfer-encoding", b"chunked")], True),
        ([(b"x-content-length", b"1")], False),
    ],
)
def test_a_body_is_announced_by_its_framing(
    headers: list[tuple[bytes, bytes]], expected: bool
) -> None:
    assert announces_body(headers) is expected


def test_a_body_is_complete_with_its_last_byte_and_not_before() -> None:
    heard = Heard()
    parser = body_parser([(b"upgrade", b"h2c"), (b"content-length", b"4")], heard)
    parser.feed_data(b"bod")
    assert not heard.complete
    parser.feed_data(b"y")
    assert (heard.body, heard.complete) == (b"body", True)


def test_chunks_are_taken_apart() -> None:
    heard = Heard()
    parser = body_parser([(b"transfer-encoding", b"chunked")], heard)
    parser.feed_data(b"2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n")
    assert (heard.body, heard.complete) == (b"body", True)


def test_a_bad_chunk_is_an_error() -> None:
    with pytest.raises(httptools.HttpParserError):
        body_parser([(b"transfer-encoding", b"chunked")], Heard()).feed_data(b"zz\r\n")

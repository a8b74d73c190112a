from __future__ import annotations

import pytest

from proxy.upstream.errors import UpstreamClosedError, UpstreamProtocolError
from proxy.upstream.response_parser import ResponseParser

OK = b"HTTP/1.1 200 OK\r\n"
COUNTED = OK + b"Content-Length: 2\r\nx: y \r\n\r\nok"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n"


def fed(*pieces: bytes, is_head_request: bool = False) -> ResponseParser:
    parser = ResponseParser()
    parser.begin(is_head_request=is_head_request)
    for piece in pieces:
        parser.feed(piece)
    return parser


def test_a_response_is_taken_apart() -> None:
    parser = fed(COUNTED)
    assert (parser.status, parser.headers) == (200, [(b"Content-Length", b"2"), (b"x", b"y")])
    assert (parser.buffered, parser.take(), parser.buffered) == (2, b"ok", 0)
    assert parser.complete
    assert parser.keep_alive
    assert not parser.has_surplus


@pytest.mark.parametrize("response", [COUNTED, CHUNKED], ids=["counted", "chunked"])
def test_a_response_may_be_cut_anywhere(response: bytes) -> None:
    whole = fed(response)
    for cut in range(1, len(response)):
        parser = fed(response[:cut], response[cut:])
        assert (parser.headers, parser.complete) == (whole.headers, True)
    single = fed(*(bytes([byte]) for byte in response))
    assert (single.headers, single.take()) == (whole.headers, whole.take())


def test_a_fault_of_ours_comes_out_as_it_is() -> None:
    class Faulty(ResponseParser):
        __slots__ = ()

        def on_body(self, data: bytes) -> None:  # noqa: ARG002
            raise MemoryError

    parser = Faulty()
    with pytest.raises(MemoryError):
        parser.feed(COUNTED)


def test_a_head_is_in_the_making_from_its_first_byte_to_its_last() -> None:
    parser = fed()
    assert not parser.in_head
    parser.feed(b"H")
    assert parser.in_head
    parser.feed(COUNTED[1:])
    assert not parser.in_head
    assert parser.head_complete


def test_between_an_interim_head_and_the_final_one_no_head_is_in_the_making() -> None:
    parser = fed(b"HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n")
    assert not parser.in_head
    assert not parser.head_complete
    parser.feed(COUNTED)
    assert parser.headers == [(b"Content-Length", b"2"), (b"x", b"y")]


def test_several_chunks_that_are_there_are_taken_together() -> None:
    parser = fed(OK + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n")
    assert (parser.take(), parser.complete) == (b"ab", False)


STREAM_HEAD = OK + b"transfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("pieces", "is_between"),
    [
        ((STREAM_HEAD,), False),  # the parser has not yet said that chunks are what comes
        ((STREAM_HEAD, b"1\r\na\r\n"), True),
        ((STREAM_HEAD + b"1\r\na\r\n2\r\nbc\r\n",), True),
        ((STREAM_HEAD, b"1\r\na\r"), False),
        ((STREAM_HEAD, b"1\r\na\r\n4"), False),
        ((STREAM_HEAD, b"1\r\na\r\n4\r"), False),
        ((STREAM_HEAD, b"1\r\na\r\n4\r\n"), False),
        ((STREAM_HEAD, b"1\r\na\r\n4;x=y\r\n"), False),
        ((STREAM_HEAD, b"1\r\na\r\n4\r\n\r\n"), False),
        ((STREAM_HEAD, b"1\r\na\r\n", b"4"), False),
        ((STREAM_HEAD, b"1\r\na\r\n0\r\n"), False),
        ((STREAM_HEAD, b"1\r\na\r\n0\r\nX-Trailer: 1\r\n"), False),
        ((STREAM_HEAD, b"1\r\na\r\n0\r\n\r\n"), False),
        ((COUNTED,), False),
        ((OK + b"\r\n1\r\na\r\n",), False),
    ],
)
def test_only_where_a_chunk_may_begin_is_between_chunks(
    pieces: tuple[bytes, ...], is_between: bool
) -> None:
    assert fed(*pieces).is_between_chunks is is_between


def test_a_new_response_is_not_between_the_chunks_of_the_last() -> None:
    parser = fed(CHUNKED)
    parser.begin(is_head_request=False)
    assert not parser.is_between_chunks


def test_trailers_change_no_header() -> None:
    parser = fed(CHUNKED)
    assert parser.complete
    assert parser.headers == [(b"transfer-encoding", b"chunked")]


@pytest.mark.parametrize(
    "length", [b"", b"content-length: 5\r\n", b"transfer-encoding: chunked\r\n"]
)
def test_the_response_to_a_head_request_ends_with_its_head(length: bytes) -> None:
    parser = fed(OK + length + b"\r\n", is_head_request=True)
    assert (parser.complete, parser.buffered) == (True, 0)
    parser.begin(is_head_request=False)
    parser.feed(COUNTED)
    assert parser.take() == b"ok"


def test_a_body_in_the_response_to_a_head_request_is_surplus() -> None:
    parser = fed(COUNTED, is_head_request=True)
    assert (parser.complete, parser.buffered, parser.has_surplus) == (True, 0, True)


@pytest.mark.parametrize("surplus", [b"x", COUNTED, b"\0"])
def test_bytes_after_the_end_are_surplus_and_no_failure(surplus: bytes) -> None:
    for pieces in ((COUNTED + surplus,), (COUNTED, surplus)):
        parser = fed(*pieces)
        assert parser.has_surplus
        assert (parser.status, parser.take()) == (200, b"ok")


def test_the_end_of_the_stream_ends_a_body_without_framing() -> None:
    parser = fed(OK + b"\r\nsome", b" more")
    assert not parser.complete
    parser.end_of_stream()
    assert (parser.complete, parser.take(), parser.keep_alive) == (True, b"some more", False)


@pytest.mark.parametrize(
    ("received", "said"),
    [
        (b"", "without answering"),
        (b"HTTP/1.1 2", "in the middle of its response head"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "without answering"),
        (COUNTED[:-1], "before its response was complete"),
        (CHUNKED[:-1], "before its response was complete"),
    ],
)
def test_any_other_end_of_the_stream_is_too_early(received: bytes, said: str) -> None:
    with pytest.raises(UpstreamClosedError, match=said):
        fed(received).end_of_stream()


def test_the_end_of_the_stream_after_a_response_is_none_of_its_business() -> None:
    fed(COUNTED).end_of_stream()


@pytest.mark.parametrize("piece_size", [1_000, 100_000])
@pytest.mark.parametrize(
    "head",
    [OK + b"x: " + b"a" * 70_000, OK + b"x: a\r\n" * 12_000, b"HTTP/1.1 102 P\r\n\r\n" * 5_000],
    ids=["one-field", "many-fields", "many-heads"],
)
def test_a_head_without_end_is_refused_before_it_fills_the_memory(
    head: bytes, piece_size: int
) -> None:
    pieces = [head[start : start + piece_size] for start in range(0, len(head), piece_size)]
    with pytest.raises(UpstreamProtocolError, match="longer than 65536 bytes"):
        fed(*pieces)


def test_a_large_body_behind_a_small_head_is_no_large_head() -> None:
    body = b"x" * 200_000
    assert fed(OK + b"content-length: 200000\r\n\r\n" + body).take() == body


@pytest.mark.parametrize(
    "overhead", [b"5;x=" + b"a" * 70_000, b"0\r\n" + b"x: a\r\n" * 12_000], ids=["ext", "trailers"]
)
def test_chunk_extensions_and_trailers_without_end_are_refused(overhead: bytes) -> None:
    parser = fed(OK + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
    with pytest.raises(UpstreamProtocolError, match="chunk extensions and trailers"):
        parser.feed(overhead)


@pytest.mark.parametrize(
    "received",
    [
        b"SSH-2.0\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_is_refused_is_never_taken_for_a_response(received: bytes) -> None:
    parser = ResponseParser()
    with pytest.raises(UpstreamProtocolError):
        parser.feed(received)
    assert not parser.head_complete
    assert not parser.complete


@pytest.mark.parametrize("before", [b"", b"\r\n"])
@pytest.mark.parametrize("protocol", [b"RTSP/1.1", b"ICE/1.0"])
@pytest.mark.parametrize("size", [1, 100])
def test_what_calls_itself_by_another_name_is_no_http_however_it_comes(
    protocol: bytes, before: bytes, size: int
) -> None:
    parser = ResponseParser()
    raw = before + protocol + b" 200 OK\r\ncontent-length: 0\r\n\r\n"
    with pytest.raises(UpstreamProtocolError, match="another protocol"):
        feed_in_pieces(parser, raw, size)
    assert not parser.head_complete


def test_a_status_line_may_come_in_pieces() -> None:
    parser = ResponseParser()
    feed_in_pieces(parser, b"\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 1)
    assert parser.complete


def feed_in_pieces(parser: ResponseParser, raw: bytes, size: int) -> None:
    for start in range(0, len(raw), size):
        parser.feed(raw[start : start + size])

"""The response parser: any bytes in any pieces end in a response or in its own error, the same one
however they were cut; what it takes, h11 takes the same way."""

from __future__ import annotations

from typing import NamedTuple

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.upstream.errors import UpstreamClosedError, UpstreamProtocolError
from proxy.upstream.header_rules import response_headers
from proxy.upstream.response_parser import ResponseParser
from proxy.upstream.sole_chunk import sole_chunk
from tests.fuzz.fuzzing import cut, examples, mostly, one_by_one, places

_WORDS = [
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200\r\n", b"HTTP/1.1 100 \r\n\r\n",
    b"HTTP/1.1 204 No\r\n", b"HTTP/1.1 304 No\r\n", b"HTTP/1.1 101 No\r\n", b"HTTP/2 200\r\n",
    b"HTTP/1.1 999 x\r\n", b"HTTP/1.1 103 x\r\nlink: y\r\n\r\n", b"HTTP/0.9 200 OK\r\n",
    b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Content-Length: +5\r\n",
    b"Content-Length: 5, 5\r\n", b"Content-Length:5\r\n", b"Content-Length: 5 \r\n",
    b"content-length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked\r\n", b"transfer-encoding: gzip, chunked\r\n",
    b"Transfer-Encoding: chunked,\r\n", b"Transfer-Encoding:\tchunked\r\n",
    b"Transfer-Encoding : chunked\r\n", b"Transfer-Encoding: identity\r\n",
    b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"Upgrade: h2c\r\n", b"x: y\r\n",
    b"x: y \t\r\n", b" folded\r\n", b"x:\r\n", b": x\r\n", b"x\0: y\r\n", b"x: \xff\r\n",
    b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"5\r\nhello\r\n", b"5\r\nhello\r\n", b"hello",
    b"5;x=y\r\nhello\r\n", b"05\r\nhello\r\n", b"0\r\n\r\n", b"0\r\n\r\n", b"0\r\nx: y\r\n\r\n",
    b"0x5\r\nhello\r\n", b"-1\r\n", b"fffffffffffffffff\r\n", b"5\nhello\n", b"5 \r\nhello\r\n",
    b"a\r\n3\r\nabc\r\n0\r\n\r\n", b"0\r\nContent-Length: 5\r\n\r\n",
]  # fmt: skip
_START = [word for word in _WORDS if word.startswith(b"HTTP") and word.count(b"\n") == 1]
_FIELDS = [word for word in _WORDS if b":" in word and not word.startswith((b"HTTP", b"0"))]
_FRAMINGS = [
    (b"Content-Length: 5\r\n", b"hello"), (b"", b"hello"), (b"content-length: 0\r\n", b""),
    (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n2;x=y\r\nab\r\n0\r\n\r\n"),
    (b"transfer-encoding: Chunked\r\n", b"5\r\nhello\r\n0\r\nx: y\r\n\r\n"),
    (b"Transfer-Encoding: chunked\r\n", b"A\r\n3\r\nabc\r\n0\r\n\r\n"),
]  # fmt: skip
_sound_fields = st.lists(
    st.sampled_from([b"x: y\r\n", b"X:\r\n", b"a: \xff \r\n", b"Connection: close\r\n"]), max_size=3
).map(b"".join)
_sound = st.builds(
    lambda interim, start, fields, framing, after: (
        interim + start + fields + framing[0] + b"\r\n" + framing[1] + after
    ),
    st.sampled_from([b"", b"", b"HTTP/1.1 100 \r\n\r\n"]),
    st.sampled_from(_START[:1] * 6 + _START),
    _sound_fields,
    st.sampled_from(_FRAMINGS),
    st.sampled_from([b"", b"", b"x", b"\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]),
)
_changed = st.builds(
    lambda stream, at, gone, put: stream[:at] + put + stream[at + gone :],
    _sound,
    st.integers(0, 120),
    st.integers(0, 3),
    st.one_of(st.binary(max_size=2), st.sampled_from([*_FIELDS, b"\r\n", b" ", b"0"])),
)
streams = st.one_of(_sound, _changed, _changed, mostly(st.sampled_from(_WORDS), 10))


class Taken(NamedTuple):
    """What came out of a stream. `error`: the kind of its end, if it was cut short."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    complete: bool
    has_surplus: bool
    keep_alive: bool
    error: type[Exception] | None


def taken(pieces: list[bytes], *, is_head_request: bool = False, past: bool = False) -> Taken:
    """`past`: chunks that stand alone in a piece go past the parser, as in Connection."""
    parser = ResponseParser()
    parser.begin(is_head_request=is_head_request)
    body, error = b"", None
    try:
        for piece in pieces:
            if past and parser.is_between_chunks and (found := sole_chunk(piece)):
                body += found
                continue
            parser.feed(piece)
            body += parser.take()
        parser.end_of_stream()
    except (UpstreamProtocolError, UpstreamClosedError) as raised:
        body += parser.take()
        error = type(raised)
    return Taken(
        parser.status, tuple(parser.headers), body, parser.complete, parser.has_surplus,
        parser.keep_alive, error,
    )  # fmt: skip


@given(streams, places, st.booleans())
@examples(250)
def test_a_stream_means_the_same_however_it_is_cut(
    stream: bytes, where: list[int], is_head: bool
) -> None:
    whole = taken([stream], is_head_request=is_head)
    for pieces in (list(cut(stream, where)), list(one_by_one(stream))):
        for past in (False, True):
            apart = taken(pieces, is_head_request=is_head, past=past)
            if whole.complete:
                # A stray CRLF behind it is seen where it comes by itself, and skipped else.
                assert apart.has_surplus >= whole.has_surplus
                assert apart._replace(has_surplus=whole.has_surplus) == whole
            else:
                # Bytes before the fault may have gone to the client already; no other ever do.
                assert (apart.complete, apart.error) == (False, whole.error)
                assert whole.body.startswith(apart.body) or apart.body.startswith(whole.body)
                if whole.status and apart.status:
                    assert (apart.status, apart.headers) == (whole.status, whole.headers)


def as_h11_reads(stream: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes] | None:
    """None for what it refuses or finds incomplete."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    connection.send(h11.Request(method="POST", target="/", headers=[("host", "x")]))
    connection.send(h11.EndOfMessage())
    head, body, closed = None, b"", False
    connection.receive_data(stream)
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
            elif event is h11.NEED_DATA and not closed:
                connection.receive_data(b"")
                closed = True
            elif not isinstance(event, h11.InformationalResponse):
                return None
    except h11.RemoteProtocolError:
        return None
    return (head.status_code, head.headers.raw_items(), body) if head is not None else None


def as_h11_writes(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """It puts what frames a body in lower case."""
    return [(n, v.lower() if n.lower() == b"transfer-encoding" else v) for n, v in headers]


@given(streams)
@examples(250)
def test_a_response_that_is_taken_is_what_h11_takes_it_for(stream: bytes) -> None:
    """Two parsers of different make: where both accept, they agree on where the body begins and
    ends, and on every field."""
    ours = taken([stream])
    theirs = as_h11_reads(stream)
    if not ours.complete or theirs is None:
        return
    status, headers, body = theirs
    assert (ours.status, ours.body) == (status, body)
    assert as_h11_writes(list(ours.headers)) == as_h11_writes(headers)


@given(streams)
@examples(100)
def test_what_is_passed_on_reads_as_what_was_taken(stream: bytes) -> None:
    """To the client it goes with the fields that cross and a framing of the gateway's own."""
    ours = taken([stream])
    if not ours.complete:
        return
    passed = response_headers(list(ours.headers), request_id=b"i", status=ours.status)
    framing = []
    if not any(name.lower() == b"content-length" for name, _ in passed):
        framing = [(b"content-length", b"%d" % len(ours.body))] if ours.status > 204 else []
        framing = [] if ours.status == 304 else framing
    lines = [b"%b: %b\r\n" % pair for pair in passed + framing]
    again = taken([b"HTTP/1.1 %d x\r\n%b\r\n%b" % (ours.status, b"".join(lines), ours.body)])
    assert (again.status, again.body, again.has_surplus) == (ours.status, ours.body, False)
    assert [pair for pair in again.headers if pair not in framing] == passed


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_data = st.binary(min_size=1, max_size=20)


@given(st.lists(st.one_of(_data, _data.map(chunk)), max_size=6), places)
@examples(100)
def test_chunks_that_go_past_the_parser_are_those_that_it_would_have_found(
    chunks: list[bytes], where: list[int]
) -> None:
    """Also where what is in a chunk looks like one, and comes by itself."""
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    wire = [chunk(data) for data in chunks]
    lines = [part for data in chunks for part in (b"%x\r\n" % len(data), data, b"\r\n")]
    stream = b"".join(wire) + b"0\r\n\r\n"
    for pieces in (
        [head, *wire, b"0\r\n\r\n"],
        [head, *lines, b"0\r\n\r\n"],
        [head, *cut(stream, where)],
    ):
        assert taken(pieces, past=True) == taken([head, stream])
        assert taken(pieces, past=True).body == b"".join(chunks)


@pytest.mark.parametrize("stream", [b"", b"\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_stream_that_says_little_ends_as_it_should(stream: bytes) -> None:
    assert taken([stream]).complete == stream.startswith(b"HTTP")


@pytest.mark.parametrize("refused", [b"HTTP/1.1 999 x", b"HTTP/2.0 200 OK", b"HTTP/1.1 099 x"])
def test_a_response_that_is_refused_is_not_made_good_by_the_next(refused: bytes) -> None:
    """Found: in one piece with it, the next one's head was taken in its place."""
    stream = refused + b"\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n\r\n"
    parser = ResponseParser()
    parser.begin(is_head_request=False)
    with pytest.raises(UpstreamProtocolError):
        parser.feed(stream)
    assert not parser.head_complete

"""Reads HTTP/1.1 responses off a byte stream: llhttp does the work, this keeps what it found.

Pure: bytes in, state out. One parser serves one connection, response after response.

llhttp in its strict mode refuses by itself: Content-Length beside Transfer-Encoding, a repeated,
signed or overflowing Content-Length, folded header lines, bare CR or LF, NUL and other control
characters, a blank before the colon, malformed chunk sizes and chunk ends. What it lets through
and we do not: protocols other than HTTP (RTSP, ICE) and versions other than HTTP/1.x, statuses
below 100, `101` (nothing here asks for an upgrade), transfer codings other than `chunked`, heads,
trailers and chunk extensions without bound. A stray CRLF between two responses, in the middle of a
segment, it skips without a word, and so do we.
"""

from __future__ import annotations

from typing import Any

import httptools

from proxy.upstream.errors import UpstreamClosedError, UpstreamProtocolError
from proxy.upstream.response_head import (
    MAX_HEAD_BYTES,
    head_size,
    is_close_delimited,
    violation_of_head,
)

_OPTIONAL_WHITESPACE = b" \t"


class ResponseParser:
    """`begin()` a response, `feed()` it bytes, `take()` its body.

    `head_complete`: `status` and `headers` are those of the final head (1xx heads are skipped).
    `complete`: the last body byte has come. `buffered`: body bytes that wait to be taken.
    `has_surplus`: bytes came that belong to no response. `keep_alive`: as the response says.
    `is_between_chunks`: the next byte is the first of a chunk; one that is whole may then be taken
    past the parser (see sole_chunk).
    """

    __slots__ = (
        "_chunks",
        "_fields",
        "_in_message",
        "_is_head_request",
        "_llhttp",
        "_overhead_bytes",
        "_violation",
        "buffered",
        "complete",
        "has_surplus",
        "head_complete",
        "headers",
        "is_between_chunks",
        "keep_alive",
        "status",
    )

    def __init__(self) -> None:
        self._llhttp: Any = httptools.HttpResponseParser(self)  # None once it is closed
        self._chunks: list[bytes] = []
        self.begin(is_head_request=False)

    def begin(self, *, is_head_request: bool) -> None:
        """Expects the response to a new request; the one before it must be complete."""
        self._is_head_request = is_head_request
        self._overhead_bytes = 0  # since the last body byte
        self._in_message = False
        self.is_between_chunks = False
        self._violation: str | None = None
        self._fields: list[tuple[bytes, bytes]] = []
        self._chunks.clear()
        self.buffered = 0
        self.head_complete = False
        self.complete = False
        self.has_surplus = False
        self.keep_alive = False
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []

    @property
    def in_head(self) -> bool:
        """A response head has begun and is not all there."""
        return self._in_message and not self.head_complete

    def feed(self, data: bytes) -> None:
        """Raises UpstreamProtocolError; bytes after the end only set `has_surplus`. Whatever else
        is raised, want of memory say, is no fault of the engine's."""
        if self.complete:
            self.has_surplus = True
            return
        self._overhead_bytes += len(data)
        self.is_between_chunks = False
        if not self._in_message and data[:1] != b"H":
            _check_protocol(data)
        try:
            self._llhttp.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ or error from None  # a fault of ours, not of the response
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._refused(error)
        if not data.endswith(b"\r\n"):
            self.is_between_chunks = False  # another has begun since the last that we were told of
        if self._violation is not None:
            raise UpstreamProtocolError(self._violation)
        if self._overhead_bytes > MAX_HEAD_BYTES and not self.complete:
            raise UpstreamProtocolError(self._too_much_overhead())

    def _refused(self, error: Exception) -> None:
        if self.complete:
            self.has_surplus = True
        elif self._violation is None:
            raise UpstreamProtocolError(f"its response is malformed: {error}") from error

    def _too_much_overhead(self) -> str:
        where = "chunk extensions and trailers are" if self.head_complete else "response head is"
        return f"its {where} longer than {MAX_HEAD_BYTES} bytes"

    def end_of_stream(self) -> None:
        """The engine sent its last byte. Raises UpstreamClosedError unless that ends the body."""
        if self.complete:
            return
        if self.head_complete and is_close_delimited(self.status, self.headers):
            self.complete = True
        else:
            raise UpstreamClosedError(f"it closed the connection {self.progress}")

    @property
    def progress(self) -> str:
        """How far the response has come, for an error message."""
        if self.head_complete:
            return "before its response was complete"
        return "in the middle of its response head" if self.in_head else "without answering"

    def take(self) -> bytes:
        """All body bytes that wait."""
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self.buffered = 0
        return data

    # What llhttp calls.

    def on_message_begin(self) -> None:
        if self.complete:
            self.has_surplus = True
        else:
            self._in_message = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers come this way too, into a list that nobody reads."""
        self._fields.append((name, value.rstrip(_OPTIONAL_WHITESPACE)))

    def on_headers_complete(self) -> None:
        if self.complete or self._violation is not None:  # llhttp reads on behind what we refuse
            return
        status = self._llhttp.get_status_code()
        fields = self._fields
        self._fields = []
        if 102 <= status < 200 or status == 100:
            return
        self._violation = self._judge_head(status, fields)
        if self._violation is not None:
            return
        self.status = status
        self.headers = fields
        self.head_complete = True
        if self._is_head_request:
            self._end_without_body()

    def on_body(self, data: bytes) -> None:
        if self.complete:
            self.has_surplus = True
            return
        self._chunks.append(data)
        self.buffered += len(data)
        self._overhead_bytes = 0

    def on_chunk_header(self) -> None:
        self.is_between_chunks = False

    def on_chunk_complete(self) -> None:
        self.is_between_chunks = True

    def on_message_complete(self) -> None:
        self._in_message = False
        self.is_between_chunks = False
        if self.head_complete and not self.complete:
            self.keep_alive = self._llhttp.should_keep_alive()
            self.complete = True

    def close(self) -> None:
        """Nothing is fed any more. llhttp calls back here: kept, it would tie a knot that only the
        collector could undo."""
        self._llhttp = None

    def _end_without_body(self) -> None:
        """A HEAD response ends with its head, which llhttp cannot know: it would wait for the body
        that Content-Length announces. So the next response gets a parser that does not."""
        self.keep_alive = self._llhttp.should_keep_alive()
        self.complete = True
        self._llhttp = httptools.HttpResponseParser(self)

    def _judge_head(self, status: int, fields: list[tuple[bytes, bytes]]) -> str | None:
        # Only what came with bytes past the limit needs to be added up.
        if self._overhead_bytes > MAX_HEAD_BYTES and head_size(fields) > MAX_HEAD_BYTES:
            return self._too_much_overhead()
        return violation_of_head(self._llhttp.get_http_version(), status, fields)


def _check_protocol(data: bytes) -> None:
    """Where a response begins. Raises UpstreamProtocolError for what llhttp reads besides HTTP."""
    if data.lstrip(b"\r\n")[:1] in (b"R", b"I"):
        raise UpstreamProtocolError("it answered in another protocol than HTTP")

"""Reads HTTP/1.1 requests off a byte stream and keeps every byte, for tests to look at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class SeenRequest:
    """One request as it came in: the raw bytes, and what they say."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    raw_head: bytes
    connection: int
    """Ordinal of the accepted connection, from 1."""
    at: float = 0.0
    """Loop time at which the handler was called."""
    ended_at: float | None = None
    """Loop time at which the answer was finished or aborted; None until then."""
    aborted: bool = False
    """The peer closed before the answer was finished."""
    raw_body: bytes = b""
    """As on the wire, chunk framing included."""
    body: bytes = b""

    @property
    def raw(self) -> bytes:
        return self.raw_head + self.raw_body

    @property
    def path(self) -> bytes:
        return self.target.partition(b"?")[0]

    @property
    def client_id(self) -> str | None:
        value = self.header(b"x-client-id")
        return None if value is None else value.decode()

    def values(self, name: bytes) -> list[bytes]:
        """Every value of a field, in order; the name in any case."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name: bytes) -> bytes | None:
        """The first value of a field."""
        return next(iter(self.values(name)), None)


class RequestReader:
    """Feed it bytes; `read_head()` gives the next request, `read_body()` fills in its body."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._request: SeenRequest | None = None
        self._remaining = 0
        self._chunked = False
        self._raw = bytearray()
        self._body = bytearray()
        self.complete = False

    def feed(self, data: bytes) -> None:
        self._buffer += data

    @property
    def has_surplus(self) -> bool:
        """Bytes came after the end of the request being answered."""
        return self.complete and bool(self._buffer)

    def read_head(self, connection: int) -> SeenRequest | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        raw = self._take(end + 4)
        request_line, *lines = raw[:-4].split(b"\r\n")
        method, target, _version = request_line.split(b" ", 2)
        pairs = [line.partition(b":") for line in lines]
        headers = [(name, value.strip()) for name, _colon, value in pairs]
        self._request = SeenRequest(method.decode(), target, headers, raw, connection)
        self._begin_body(self._request)
        return self._request

    def _begin_body(self, request: SeenRequest) -> None:
        self._raw.clear()
        self._body.clear()
        self.complete = False
        self._chunked = b"chunked" in (request.header(b"transfer-encoding") or b"").lower()
        self._remaining = int(request.header(b"content-length") or 0)

    def read_body(self) -> None:
        if self.complete or self._request is None:
            return
        if self._chunked:
            self._read_chunks()
        else:
            self._read_counted()
        if self.complete:
            self._request.raw_body = bytes(self._raw)
            self._request.body = bytes(self._body)

    def _read_counted(self) -> None:
        data = self._take(min(self._remaining, len(self._buffer)))
        self._remaining -= len(data)
        self._raw += data
        self._body += data
        self.complete = self._remaining == 0

    def _read_chunks(self) -> None:
        while (end := self._buffer.find(b"\r\n")) >= 0:
            size = int(bytes(self._buffer[:end]).partition(b";")[0], 16)
            whole = end + 2 + size + 2
            if size == 0:
                whole = self._end_of_trailers(end)
            if whole == 0 or len(self._buffer) < whole:
                return
            raw = self._take(whole)
            self._raw += raw
            self._body += raw[end + 2 : end + 2 + size]
            if size == 0:
                self.complete = True
                return

    def _end_of_trailers(self, end: int) -> int:
        """Length of the last chunk with its trailer section; 0 while it is not all there."""
        found = self._buffer.find(b"\r\n\r\n", end)
        return 0 if found < 0 else found + 4

    def _take(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

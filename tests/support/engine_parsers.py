"""What an engine's server makes of bytes: read by h11 and by httptools, the two parsers of uvicorn,
with which vLLM is served."""

from __future__ import annotations

from typing import NamedTuple

import h11
import httptools


class ReadRequest(NamedTuple):
    """`headers` with names in lower case."""

    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key == name]


def read_by_h11(data: bytes) -> list[ReadRequest]:
    """All requests in it, one behind the other. Raises h11.RemoteProtocolError, or ValueError when
    the last is not whole."""
    found = []
    while data:
        connection = h11.Connection(h11.SERVER)
        connection.receive_data(data)
        head, body = connection.next_event(), b""
        while isinstance(event := connection.next_event(), h11.Data):
            body += event.data
        if not isinstance(head, h11.Request) or not isinstance(event, h11.EndOfMessage):
            raise ValueError("a request that is not whole")
        found.append(ReadRequest(head.method, head.target, tuple(head.headers), body))
        data = connection.trailing_data[0]
    return found


def read_by_httptools(data: bytes) -> list[ReadRequest]:
    """As read_by_h11. Raises httptools.HttpParserError, or ValueError."""
    listener = _Listener()
    listener.parser = httptools.HttpRequestParser(listener)
    listener.parser.feed_data(data)
    if listener.is_open:
        raise ValueError("a request that is not whole")
    return listener.found


class _Listener:
    """Named as httptools calls it."""

    parser: httptools.HttpRequestParser

    def __init__(self) -> None:
        self.found: list[ReadRequest] = []
        self.is_open = False

    def on_message_begin(self) -> None:
        self.is_open = True
        self._target = self._body = b""
        self._headers: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value.strip(b" \t")))  # as h11 has it

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.is_open = False
        method = self.parser.get_method()
        self.found.append(ReadRequest(method, self._target, tuple(self._headers), self._body))

"""A client on a plain socket that keeps every byte, and judges in the end what it was sent."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, cast

from tests.faults.matrix import Client

if TYPE_CHECKING:
    from collections.abc import Callable

# Whoever does not read is to be felt at the other end without many megabytes on the way.
_RECEIVE_BUFFER_BYTES = 256 * 1024
_LARGE = 64 * 1024
_RST_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER, 0 s


@dataclass(frozen=True)
class Seen:
    """What came of a request for its client. `code` is that of an answer or an event of ours, and
    whether it `may_come_back` what a Retry-After says."""

    client: Client
    status: int = 0
    body: bytes = b""
    code: str = ""
    may_come_back: bool = False


class WatchingClient(asyncio.Protocol):
    """One connection, for one request at a time."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_over = False
        self.was_reset = False

    @classmethod
    async def connect(cls, port: int) -> Self:
        loop = asyncio.get_running_loop()
        raw = socket.socket()
        raw.setblocking(False)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        await loop.sock_connect(raw, ("127.0.0.1", port))
        _, client = await loop.create_connection(cls, sock=raw)
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> None:
        self.is_over = True

    def connection_lost(self, error: Exception | None) -> None:
        self.is_over = True
        self.was_reset = isinstance(error, ConnectionResetError)

    def send(self, data: bytes) -> None:
        self.transport.write(data)

    def fin(self) -> None:
        self.transport.close()

    def rst(self) -> None:
        raw = self.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
        self.transport.abort()

    def half_close(self) -> None:
        self.transport.write_eof()

    def stop_reading(self) -> None:
        self.transport.pause_reading()

    def read_on(self) -> None:
        self.transport.resume_reading()

    async def until(self, holds: Callable[[], bool], what: str, within_s: float = 10.0) -> None:
        deadline = asyncio.get_running_loop().time() + within_s
        while not holds():
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"the client has not seen {what}: {bytes(self.received)!r}")
            await asyncio.sleep(0.001)

    async def see(self) -> Seen:
        """Once the answer is complete or the connection over."""
        await self.until(lambda: self.is_over or self._is_complete(), "an end")
        return judged(bytes(self.received))

    def _is_complete(self) -> bool:
        """Not asked of a large answer, of which the tests await the end."""
        return len(self.received) < _LARGE and judged(bytes(self.received)).client in (
            Client.WHOLE,
            Client.REFUSED,
        )


def judged(received: bytes) -> Seen:
    """Raises AssertionError for an answer that no client could read, or has more behind it."""
    head, found, rest = received.partition(b"\r\n\r\n")
    if not found:
        return Seen(Client.CLOSED if not head else Client.BROKEN)
    status_line, *lines = head.decode("latin-1").split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    status = int(status_line.split(" ")[1])
    if "transfer-encoding" in fields:
        body, is_complete = _unchunked(rest)
    else:
        length = int(fields["content-length"])
        body, is_complete = rest, len(rest) == length
        assert len(rest) <= length, f"bytes behind an answer: {rest!r}"
    reason = fields.get("x-sluice-reason", "")
    if not is_complete:
        return Seen(Client.BROKEN, status, body, reason or _code_of_event(body))
    if reason:
        code = json.loads(body)["error"]["code"]
        return Seen(Client.REFUSED, status, body, code, "retry-after" in fields)
    return Seen(Client.WHOLE, status, body)


def _unchunked(rest: bytes) -> tuple[bytes, bool]:
    body = b""
    while True:
        line, found, rest = rest.partition(b"\r\n")
        if not found:
            return body, False
        size = int(line, 16)
        body += rest[:size]
        if len(rest) < size + 2:
            return body, False
        assert rest[size : size + 2] == b"\r\n", f"not the end of a chunk: {rest!r}"
        rest = rest[size + 2 :]
        if size == 0:
            assert not rest, f"bytes behind an answer: {rest!r}"
            return body, True


def _code_of_event(body: bytes) -> str:
    """Of the error event at the end of a stream; empty if there is none."""
    last = body.rstrip().rpartition(b"\n")[2]
    if not last.startswith(b'data: {"error"'):
        return ""
    return str(json.loads(last.removeprefix(b"data: "))["error"]["code"])

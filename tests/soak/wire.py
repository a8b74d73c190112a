"""One connection of a client, as lean as the two thousand of them must be: no reader, no parser,
only whether an answer has come, which, and whether it came whole."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass
from typing import cast

_LINGER_NOT = struct.pack("ii", 1, 0)
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_TAIL = 64


@dataclass
class Answer:
    """As much as came of it."""

    status: int = 0
    is_chunked: bool = False
    length: int = 0
    received: int = 0
    pieces: int = 0
    tail: bytes = b""
    is_whole: bool = False
    has_error_event: bool = False
    has_retry_after: bool = False


class Wire(asyncio.Protocol):
    """`answer` is what came since `expect()`; `over` is done when it is whole or never will be."""

    transport: asyncio.Transport
    port: int

    def __init__(self) -> None:
        self.is_closed = False
        self.was_reset = False
        self.answer = Answer()
        self.over: asyncio.Future[None] | None = None
        self.leave_after_pieces = 0
        self._head = b""
        self._can_write: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's own is none by its class
        self.port = transport.get_extra_info("peername")[1]

    def expect(self) -> asyncio.Future[None]:
        """Forgets what came before."""
        self.answer, self._head = Answer(), b""
        self.over = asyncio.get_running_loop().create_future()
        if self.is_closed:
            self.over.set_result(None)
        return self.over

    def data_received(self, data: bytes) -> None:
        if not self.answer.status:
            self._head += data
            head, end, data = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            self._read_head(head.lower())
        self._read_body(data)

    def _read_head(self, head: bytes) -> None:
        answer = self.answer
        answer.status = int(head[9:12])
        answer.is_chunked = b"\r\ntransfer-encoding: chunked" in head
        _, found, rest = head.partition(b"\r\ncontent-length:")
        answer.length = int(rest.partition(b"\r\n")[0]) if found else 0
        answer.has_retry_after = b"\r\nretry-after:" in head

    def _read_body(self, data: bytes) -> None:
        answer = self.answer
        answer.received += len(data)
        answer.pieces += 1
        answer.tail = (answer.tail + data)[-_TAIL:]
        answer.has_error_event = answer.has_error_event or b'data: {"error"' in data
        answer.is_whole = (
            (b"\r\n" + answer.tail).endswith(_LAST_CHUNK)
            if answer.is_chunked
            else answer.received >= answer.length
        )
        if answer.is_whole or 0 < self.leave_after_pieces <= answer.pieces:
            self._finish()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed, self.was_reset = True, error is not None
        self.resume_writing()
        self._finish()

    def _finish(self) -> None:
        if self.over is not None and not self.over.done():
            self.over.set_result(None)

    # Writing what is larger than the kernel takes at once.

    def pause_writing(self) -> None:
        self._can_write = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        waiting, self._can_write = self._can_write, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def drained(self) -> None:
        if self._can_write is not None:
            await self._can_write

    # Leaving.

    def close(self) -> None:
        self.transport.close()

    def reset(self) -> None:
        raw = self.transport.get_extra_info("socket")
        if raw is not None and not self.is_closed:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.transport.abort()


async def connect(port: int, receive_buffer: int = 0) -> Wire:
    """Raises OSError. A small `receive_buffer` makes the other side notice who does not read."""
    loop = asyncio.get_running_loop()
    raw = socket.socket()
    raw.setblocking(False)
    if receive_buffer:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    try:
        await loop.sock_connect(raw, ("127.0.0.1", port))
        _, wire = await loop.create_connection(Wire, sock=raw)
    except BaseException:
        raw.close()
        raise
    return wire

"""One connection of the scripted upstream: what came in, and the steps of an answer."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import TYPE_CHECKING, Protocol, cast

from tests.support.request_reader import RequestReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.request_reader import SeenRequest

    Pair = tuple[str | bytes, str | bytes]

_RST_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER with 0 seconds: close() sends RST, not FIN


class Owner(Protocol):
    """What a connection tells the server it belongs to."""

    early: bool
    idle_close_s: float | None

    def connection_opened(self, connection: Connection) -> int: ...
    def connection_closed(self, connection: Connection) -> None: ...
    def request_started(self, exchange: Exchange) -> asyncio.Task[None]: ...
    def answer_finished(self, exchange: Exchange) -> None: ...
    def answer_aborted(self, exchange: Exchange) -> None: ...
    def request_pipelined(self) -> None: ...


class Exchange:
    """One request and the way to answer it. Everything written leaves at once, in order."""

    def __init__(self, connection: Connection, request: SeenRequest) -> None:
        self._connection = connection
        self.request = request
        self.finished = False
        self.counted = False

    async def body(self) -> bytes:
        """The whole request body, framing removed; there already unless the upstream is `early`."""
        await self._connection.request_complete.wait()
        return self.request.body

    def send(self, raw: bytes) -> None:
        """Puts bytes on the wire as they are."""
        self._connection.transport.write(raw)

    async def drain(self) -> None:
        """Waits until what was sent has left for the kernel (that is: until the peer reads)."""
        await asyncio.sleep(0)  # a peer that is gone cancels us here
        await self._connection.writable.wait()

    async def dribble(self, raw: bytes, size: int = 1, interval_s: float = 0.0) -> None:
        """Sends `raw` in pieces of `size` bytes, each in a loop step of its own at least."""
        for start in range(0, len(raw), size):
            self.send(raw[start : start + size])
            await asyncio.sleep(interval_s)

    def respond(
        self,
        body: bytes = b"",
        status: int = 200,
        headers: Sequence[Pair] = (),
        content_type: str | None = "application/json",
    ) -> None:
        """A whole answer with Content-Length, in one write."""
        typed = [("content-type", content_type)] if content_type else []
        framed = [*typed, *headers, ("content-length", str(len(body)))]
        self.send(head(status, framed) + body)
        self._finish_if_sent()

    def start_chunked(
        self,
        status: int = 200,
        headers: Sequence[Pair] = (),
        content_type: str = "text/event-stream; charset=utf-8",
    ) -> None:
        typed = [("content-type", content_type), *headers, ("transfer-encoding", "chunked")]
        self.send(head(status, typed))

    def chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def end_chunked(self, trailers: Sequence[Pair] = ()) -> None:
        lines = b"".join(_field(name, value) for name, value in trailers)
        self.send(b"0\r\n" + lines + b"\r\n")
        self._finish_if_sent()

    def _finish_if_sent(self) -> None:
        """What the kernel has not taken can still be aborted; returning from the handler waits."""
        if self._connection.writable.is_set():
            self.finish_answer()

    async def finish_when_sent(self) -> None:
        await self._connection.writable.wait()
        self.finish_answer()

    def finish_answer(self) -> None:
        """From here on a closing peer is no abort. Returning from the handler does it too."""
        if not self.finished:
            self.finished = True
            self._connection.owner.answer_finished(self)

    def close(self) -> None:
        """FIN, after everything sent so far."""
        self.finish_answer()
        self._connection.transport.close()

    def reset(self) -> None:
        """RST, at once: what the peer has not read is lost."""
        self.finish_answer()
        self._connection.reset()

    def stop_reading(self) -> None:
        """Lets the peer's bytes pile up. Its closing goes unnoticed meanwhile."""
        self._connection.transport.pause_reading()

    def read_on(self) -> None:
        self._connection.transport.resume_reading()


class Connection(asyncio.Protocol):
    """One accepted socket: reads requests one after the other and runs their handlers."""

    transport: asyncio.Transport

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.request_complete = asyncio.Event()
        self.writable = asyncio.Event()
        self._reader = RequestReader()
        self._exchange: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is one by shape only
        # Drained means that the kernel has it all; 1 and not 0, at which TLS would never resume.
        self.transport.set_write_buffer_limits(high=1, low=0)
        self.writable.set()
        self._number = self.owner.connection_opened(self)
        self._rest()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        if self._exchange is None:
            self._read_request()
        else:
            self._read_body()
            if self._reader.has_surplus and not self._exchange.finished:
                self.owner.request_pipelined()

    def _read_request(self) -> None:
        request = self._reader.read_head(self._number)
        if request is None:
            return
        self._cancel_idle_timer()
        self._exchange = Exchange(self, request)
        self.request_complete.clear()
        self._read_body()
        if self.owner.early and self._task is None:
            self._start(self._exchange)

    def _read_body(self) -> None:
        self._reader.read_body()
        if self.request_complete.is_set() or not self._reader.complete:
            return
        self.request_complete.set()
        if self._exchange is None:
            return
        if self._exchange.finished:
            self._rest_or_read_on()  # answered early; this was the rest of the body
        elif self._task is None:
            self._start(self._exchange)

    def _start(self, exchange: Exchange) -> None:
        self._task = self.owner.request_started(exchange)
        self._task.add_done_callback(self._handler_returned)

    def _handler_returned(self, _task: asyncio.Task[None]) -> None:
        self._task = None
        if self.request_complete.is_set():
            self._rest_or_read_on()

    def _rest_or_read_on(self) -> None:
        """This connection is free for the next request, which may be in the buffer already."""
        if self._task is None and not self.transport.is_closing():
            self._exchange = None
            self._rest()
            self._read_request()

    def _rest(self) -> None:
        if self.owner.idle_close_s is not None:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(self.owner.idle_close_s, self.close_if_idle)

    def _cancel_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def close_if_idle(self) -> None:
        if self._exchange is None or self._exchange.finished:
            self.transport.close()

    def reset(self) -> None:
        raw = self.transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
        self.transport.abort()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_lost(self, _error: Exception | None) -> None:
        self._cancel_idle_timer()
        self.writable.set()
        self.owner.connection_closed(self)
        if self._exchange is not None and not self._exchange.finished:
            self._exchange.finished = True
            if self._task is not None:
                self.owner.answer_aborted(self._exchange)
        if self._task is not None:
            self._task.cancel()


def head(status: int, headers: Sequence[Pair], reason: str = "OK") -> bytes:
    """A response head, its fields exactly as given."""
    lines = b"".join(_field(name, value) for name, value in headers)
    return f"HTTP/1.1 {status} {reason}\r\n".encode() + lines + b"\r\n"


def _field(name: str | bytes, value: str | bytes) -> bytes:
    return _bytes(name) + b": " + _bytes(value) + b"\r\n"


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")

"""The client's connection: uvicorn's HTTP/1.1 protocol with the answers and bounds that we promise.

uvicorn parses, frames and keeps alive; see docs/decisions for why its class is extended instead of
replaced. What is added:

- malformed requests get an OpenAI error, never a plain-text one, and never in the middle of an
  answer;
- the head of a request is bounded in size (431) and in time (408), an upload that goes on after
  its answer is bounded in time, and so is a client that does not read;
- a pipelined request does not stop us from seeing that the client has left;
- a request to upgrade that we do not follow (`h2c`, as Java's client sends it) is served and its
  connection closed, because the parser cannot go on after it;
- the application can break a connection off, and can answer an HTTP/1.0 client without chunks.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from proxy.openai_api.errors import error_body

if TYPE_CHECKING:
    import asyncio

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

CONNECTION_EXTENSION: Final = "sluice.connection"
"""Key in an ASGI scope's extensions under which a ClientConnection is found."""

MAX_HEAD_BYTES: Final = 65_536
_MAX_PIPELINED = 8
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER, 0 s


class ClientConnection:
    """What the application may do to the connection under a request, besides ASGI."""

    __slots__ = ("_protocol",)

    def __init__(self, protocol: SluiceProtocol) -> None:
        self._protocol = protocol

    def close(self) -> None:
        """Sends what is buffered, then closes; an unfinished body stays visibly unfinished."""
        self._protocol.transport.close()

    def abort(self) -> None:
        """Closes with a reset, at once: even a body that ends with the connection looks broken."""
        transport = self._protocol.transport
        raw = transport.get_extra_info("socket")
        if raw is not None:
            with contextlib.suppress(OSError):  # the peer has closed it already
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        transport.abort()

    def is_closing(self) -> bool:
        return self._protocol.transport.is_closing()

    def end_body_by_closing(self) -> None:
        """Before the response start: no chunked framing, the body ends with the connection."""
        cycle = self._protocol.cycle
        cycle.chunked_encoding = False
        cycle.expected_content_length = 1 << 62

    def body_complete(self) -> None:
        """Before the last body event of a response whose body ends with the connection."""
        self._protocol.cycle.expected_content_length = 0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Seconds: for a request to arrive, and for a client to read nothing of what it is sent."""

    request_s: float
    write_s: float


class SluiceProtocol(HttpToolsProtocol):
    """One client connection. `reading_since` is when the request now arriving began, on the loop's
    clock; None while none is."""

    reading_since: float | None = None
    _in_head = False
    _head_bytes = 0
    _unsent_bytes = 0
    _stalled_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        super().connection_made(transport)
        self._extensions = {CONNECTION_EXTENSION: ClientConnection(self)}
        self.reading_since = self.loop.time()
        self._in_head = True

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            # Counted per read, after parsing: a head that came whole with its body costs nothing.
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(
                    431,
                    "bad_request",
                    f"The request line and headers are larger than {MAX_HEAD_BYTES} bytes.",
                )

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = self._extensions  # type: ignore[typeddict-item]  # ours
        self.reading_since = self.loop.time()
        self._in_head = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()
        if self.pipeline:
            # uvicorn stops reading until the running request is answered, and with that would
            # no longer see its client leave. Reading goes on, within a bound.
            if len(self.pipeline) > _MAX_PIPELINED:
                self.transport.close()
            else:
                self.flow.resume_reading()

    def on_message_complete(self) -> None:
        self.reading_since = None
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "bad_request", f"The request is not valid HTTP/1.1: {msg}")

    def _unsupported_upgrade_warning(self) -> None:
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def enforce_time_limits(self, now: float, limits: ConnectionLimits) -> None:
        """Ends what has been arriving, or has not been read, for too long. Called every second."""
        if self.reading_since is not None:
            self._end_slow_request(now - self.reading_since, limits.request_s)
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0 or unsent < self._unsent_bytes or self._may_add_to_unsent:
            self._stalled_since = now
        elif now - self._stalled_since >= limits.write_s:
            self.transport.abort()
        self._unsent_bytes = unsent

    @property
    def _may_add_to_unsent(self) -> bool:
        """While it may, a buffer that does not shrink says nothing about the client."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's type forgets that it begins so
        answering = cycle is not None and not cycle.response_complete
        return answering and not self.flow.write_paused and not self.transport.is_closing()

    def _end_slow_request(self, arriving_for_s: float, limit_s: float) -> None:
        if arriving_for_s < limit_s:
            return
        if self._in_head:
            if self._head_bytes:
                message = f"The request head did not arrive within {limit_s:g} s."
                self._refuse(408, "body_timeout", message)
            elif self.cycle is None:
                self.transport.close()  # connected and never said a word
        elif self.cycle.response_complete and arriving_for_s > 2 * limit_s:
            # While the application waits for a body it times it itself; this one was answered
            # early and is still being sent.
            self.transport.close()

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answers for the request that cannot be read, and closes."""
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if self.pipeline:
            self.transport.close()  # several answers are due before this one could be
        elif _answers_earlier_request(cycle):
            cycle.keep_alive = False  # what cannot be read comes after it and is never answered
        else:
            body = error_body(message, "invalid_request_error", code)
            self.transport.write(
                b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
                b"x-sluice-reason: %s\r\nconnection: close\r\n\r\n%s"
                % (status, _PHRASES[status], len(body), code.encode(), body)
            )
            self.transport.close()


def _answers_earlier_request(cycle: RequestResponseCycle | None) -> bool:
    """Whether this is a request that was read whole, or is being answered already."""
    if cycle is None or cycle.response_complete:
        return False
    return cycle.response_started or not cycle.more_body


_PHRASES = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
}

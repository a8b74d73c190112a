"""One connection to the engine: an asyncio protocol that carries one exchange after another.

What has arrived is decided in the protocol's callbacks, synchronously; a coroutine waits on a
future only when there is nothing yet to return.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, cast

from proxy.upstream.errors import (
    UpstreamClosedError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
    located,
    said_of,
)
from proxy.upstream.lazy_deadline import LazyDeadline
from proxy.upstream.request_sender import RequestSender, encode_head
from proxy.upstream.response_parser import ResponseParser
from proxy.upstream.sole_chunk import sole_chunk
from proxy.upstream.taker import Taker
from proxy.upstream.tcp_keep_alive import keep_alive
from proxy.upstream.total_limit import took_too_long

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from proxy.upstream.port import Room, Take, UpstreamRequest, UpstreamTimeouts

# Reading stops when so much of a body waits for its reader. One read of the event loop may come on
# top (256 KiB), so a connection holds at most this plus that.
HIGH_WATER_BYTES = 64 * 1024


class Connection(asyncio.Protocol):
    """Made by the pool. `on_unusable` is called once, when the connection closes or is aborted.

    `ask()` sends a request and returns when `status` and `headers` are there; then `read()` the
    body; then `is_reusable` says whether another request may follow, after `rest()`. `abort()` at
    any time, from anywhere. `lost` is done once the socket is closed.
    """

    _transport: asyncio.Transport
    """Where requests are written: TCP, or TLS over it."""
    _sender: RequestSender

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        peer: str,
        timeouts: UpstreamTimeouts,
        on_unusable: Callable[[Connection], None],
    ) -> None:
        self._loop = loop
        self.peer = peer
        self._timeouts = timeouts
        self._on_unusable = on_unusable
        self._wire: asyncio.Transport | None = None  # TCP in either case, once connected
        shortest = min(timeouts.first_byte_s, timeouts.idle_s, timeouts.total_s or inf)
        self._deadline = LazyDeadline(loop, shortest, self._deadline_passed)
        self._parser = ResponseParser()
        self._waiter: asyncio.Future[None] | None = None
        self._taker: Taker | None = None
        self._failure: Exception | None = None
        self._is_resting = True
        self._is_reading_paused = False
        self._first_byte_at = self._total_at = inf
        self._unsent_bytes = 0
        self.lost: asyncio.Future[None] = loop.create_future()
        self.is_closed = False
        self.has_answered = False
        """A byte of the response to the present request has come."""
        self.idle_since = 0.0

    # What the pool and the exchange call.

    async def secure(self, context: ssl.SSLContext, server_name: str) -> None:
        """Puts TLS over the connection, before its first use. Raises OSError."""
        if self._wire is None or self.is_closed:
            raise ConnectionResetError("closed before the TLS handshake")
        secured = await self._loop.start_tls(self._wire, self, context, server_hostname=server_name)
        if secured is None:
            raise ConnectionResetError("closed in the TLS handshake")
        # asyncio's TLS pauses at the limit, not above it: at 0 it would never resume.
        secured.set_write_buffer_limits(high=1, low=0)
        self._transport = secured
        self._sender = RequestSender(secured, self._wire, self._loop)

    async def ask(self, request: UpstreamRequest, total_at: float) -> None:
        """Sends the request and waits for the response head, until `total_at` at the longest. The
        connection is aborted, however this ends but by returning."""
        try:
            head = encode_head(request)
            self._parser.begin(is_head_request=request.method == "HEAD")
            self._is_resting = False
            self.has_answered = False
            self._first_byte_at, self._total_at = inf, total_at
            if not self.is_closed:
                self._sender.start(head, request.body)
                self._watch()
            while not self._parser.head_complete:
                await self._wait()
            self._total_at = inf
        except BaseException:
            self.abort()
            raise

    @property
    def status(self) -> int:
        return self._parser.status

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return self._parser.headers

    @property
    def is_readable(self) -> bool:
        """read() has something to return: bytes, or the end of the body."""
        return self._parser.buffered > 0 or self._parser.complete

    @property
    def is_exhausted(self) -> bool:
        """The response is complete and every byte of it has been read."""
        return self._parser.complete and not self._parser.buffered

    async def read(self) -> bytes:
        """See UpstreamResponse.read."""
        parser = self._parser
        while not parser.buffered:
            if parser.complete:
                return b""
            self._deadline.set(self._idle_at())
            await self._wait()
            self._deadline.set(inf)
        self._read_on()
        return parser.take()

    def _read_on(self) -> None:
        if self._is_reading_paused:
            self._is_reading_paused = False
            self._transport.resume_reading()

    def _idle_at(self) -> float:
        """When the engine will have been silent for too long."""
        return self._loop.time() + self._timeouts.idle_s

    async def pass_to(self, take: Take, room: Room) -> None:
        """See UpstreamResponse.pass_to."""
        parser = self._parser
        taker = self._taker = Taker(take)
        try:
            while not taker.is_done:
                if not taker.has_room:
                    self._deadline.set(inf)
                    await room()
                    taker.has_room = True
                elif parser.buffered or parser.complete:
                    taker.give(parser.take(), parser.complete)
                else:
                    self._read_on()
                    self._deadline.set(self._idle_at())
                    await self._wait()
                    taker.raise_error()
            self._read_on()  # a long answer to a slow client may end while reading is paused
        finally:
            self._taker = None

    @property
    def is_reusable(self) -> bool:
        """The response is complete, the request was sent in full, and nothing else happened.

        One whose reader left it with so much unread that reading stopped hears nothing any more.
        """
        parser = self._parser
        return (
            parser.complete
            and parser.keep_alive
            and not parser.has_surplus
            and not self._is_reading_paused
            and self._sender.is_done
            and not self.is_closed
            and not self._transport.is_closing()
        )

    def rest(self) -> None:
        """No exchange from now on: whatever comes ends the connection."""
        self._is_resting = True
        self._deadline.set(inf)
        self.idle_since = self._loop.time()

    def abort(self, reason: Exception | None = None) -> None:
        """Closes the connection at once, in whatever state. Who waits on it is told `reason`."""
        if self.is_closed:
            return
        self.is_closed = True
        self._failure = reason or UpstreamClosedError(self._says("we closed the connection"))
        self._deadline.close()
        if self._wire is None:
            self._parser.close()  # there will be no connection_lost()
        else:
            self._sender.stop()
            self._wire.abort()
        self._wake()
        self._on_unusable(self)

    # Waiting, and what ends it.

    async def _wait(self) -> None:
        """Until something has happened. Raises what went wrong."""
        if self._failure is not None:
            raise self._failure
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _watch(self) -> None:
        """Sets the deadline for what is due next, while the response head is not there."""
        now = self._loop.time()
        if self._parser.in_head:
            at = now + self._timeouts.idle_s
        elif self._sender.is_done:
            if self._first_byte_at == inf:
                self._first_byte_at = now + self._timeouts.first_byte_s
            at = self._first_byte_at
        else:
            at = now + self._timeouts.idle_s
            self._unsent_bytes = self._sender.unsent_bytes
        self._deadline.set(min(at, self._total_at))

    def _deadline_passed(self) -> None:
        now = self._loop.time()
        limits = self._timeouts
        if now >= self._total_at:
            self.abort(took_too_long(self.peer, limits.total_s))
            return
        if self._parser.head_complete or self._parser.in_head:
            what = f"it fell silent for {limits.idle_s:g} s {self._parser.progress}"
        elif now >= self._first_byte_at:
            what = f"it did not answer within {limits.first_byte_s:g} s"
        elif self._sender.is_done or self._sender.unsent_bytes < self._unsent_bytes:
            self._watch()  # slow, but it reads
            return
        else:
            what = f"it did not read our request for {limits.idle_s:g} s"
        self.abort(UpstreamTimeoutError(self._says(what)))

    def _says(self, what: str) -> str:
        return said_of(self.peer, what)

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        wire = cast("asyncio.Transport", transport)  # uvloop's is one by shape only
        if self.is_closed:
            wire.abort()
            return
        # At 0 we are told when the kernel has taken everything, which is what "sent" means here.
        wire.set_write_buffer_limits(high=0)
        keep_alive(wire)
        self._wire = self._transport = wire
        self._sender = RequestSender(wire, wire, self._loop)

    def data_received(self, data: bytes) -> None:
        parser, taker = self._parser, self._taker
        if (
            taker is not None
            and parser.is_between_chunks
            and taker.has_room
            and not parser.buffered
            and (piece := sole_chunk(data))
        ):
            # Past the parser, which saves 3 to 5 % of what an event of a stream costs (2026-12).
            self._pass_on(taker, piece)
        elif self._is_resting:
            self.abort(UpstreamProtocolError(self._says("it spoke without being asked")))
        else:
            self._parse(parser, data)

    def _parse(self, parser: ResponseParser, data: bytes) -> None:
        self.has_answered = True
        try:
            parser.feed(data)
        except Exception as error:  # noqa: BLE001 - ours too: who waits is told, not the event loop
            self.abort(located(self.peer, error))
            return
        if not parser.head_complete:
            self._watch()
            return
        taker = self._taker
        if taker is not None and taker.has_room and not taker.is_done:
            self._pass_on(taker, parser.take(), parser.complete)
        elif self._waiter is not None:
            self._deadline.set(inf)
            self._wake()
        if parser.buffered > HIGH_WATER_BYTES and not self._is_reading_paused:
            self._is_reading_paused = True
            self._transport.pause_reading()

    def _pass_on(self, taker: Taker, piece: bytes, is_last: bool = False) -> None:
        """At once, without waking the task that waits in pass_to() unless it has something to do:
        that is half of what an event of a stream costs (Python 3.13, 2026-12)."""
        if (piece or is_last) and taker.give_in_callback(piece, is_last):
            self._wake()
        else:
            self._deadline.set(self._idle_at())

    def pause_writing(self) -> None:
        self._sender.pause()
        self._watch_if_unanswered()

    def resume_writing(self) -> None:
        self._sender.resume()
        self._watch_if_unanswered()

    def _watch_if_unanswered(self) -> None:
        if not (self._is_resting or self.is_closed or self._parser.head_complete):
            self._watch()

    def eof_received(self) -> None:
        self._ended()

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None and not self.is_closed and not self._parser.complete:
            self.abort(UpstreamClosedError(self._says(f"{error} {self._parser.progress}")))
        self._ended()
        self._parser.close()
        if not self.lost.done():
            self.lost.set_result(None)

    def _ended(self) -> None:
        """The engine sends nothing more; for a body without framing that is its proper end."""
        if self.is_closed:
            return
        try:
            self._parser.end_of_stream()
        except UpstreamClosedError as error:
            self.abort(UpstreamClosedError(self._says(str(error))))
        else:
            self.abort()

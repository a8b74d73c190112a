"""The HTTP/1.1 connection pool: the Upstream that is used unless something else is asked for.

Connections are kept alive and reused last in, first out, so that the idle ones age and close.
There is no limit of its own: permits are the limit, and a second one would be an invisible queue.
Requests are never pipelined.

A request is sent a second time in one case only: a reused connection died before any byte of a
response, as happens when the engine closes an idle connection just as we write to it. The second
try goes over a fresh connection and is the last. An engine that received the first request and
closed on purpose sees it twice. When there is no fresh connection to be had, it was the engine that
died, and unless it did so in the moment in which it was asked, the request may have been read: the
error then says that it closed, not that nobody could connect, as of a request that nobody has seen.
"""

from __future__ import annotations

import asyncio
import ssl
from math import inf
from typing import TYPE_CHECKING, Self

from proxy.upstream.connection import Connection
from proxy.upstream.errors import (
    OUT_OF_DESCRIPTORS,
    UpstreamClosedError,
    UpstreamConnectError,
    said_of,
)
from proxy.upstream.idle_reserve import IdleReserve
from proxy.upstream.late_expiry import time_limit
from proxy.upstream.port import PoolSnapshot, UpstreamTimeouts
from proxy.upstream.total_limit import in_time

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import Any

    from proxy.upstream.address import UpstreamAddress
    from proxy.upstream.port import (
        RawHeaders,
        Room,
        Take,
        UpstreamRequest,
        UpstreamResponse,
    )

# uvicorn, and so vLLM, closes a connection that has been idle for 5 s. Its clock starts before
# ours, and a loop under load may be late: 2 s between the two keep us from writing to a connection
# that is being closed. (When it happens all the same, the request is sent once more.)
IDLE_EXPIRY_S = 3.0

# The close of an idle connection meets a request within a round trip. An engine that dies of what
# it was asked takes longer: a step, and then the end of its processes.
IDLE_RACE_S = 0.1


class ConnectionPool:
    """An Upstream over own connections. Belongs to the event loop that first uses it.

    `ssl_context` is for https only; by default the system's authorities are trusted. Pools that
    share a `reserve` give up idle connections when one of them lacks a descriptor.
    """

    def __init__(
        self,
        address: UpstreamAddress,
        timeouts: UpstreamTimeouts | None = None,
        *,
        ssl_context: ssl.SSLContext | None = None,
        idle_expiry_s: float = IDLE_EXPIRY_S,
        reserve: IdleReserve | None = None,
    ) -> None:
        self._address = address
        self._timeouts = timeouts or UpstreamTimeouts()
        self._idle_expiry_s = idle_expiry_s
        self._peer = address.peer
        self._ssl_context = None
        if address.is_tls:
            self._ssl_context = ssl_context or _default_context()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: set[Connection] = set()
        self._idle: dict[Connection, None] = {}  # oldest first
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._reserve = reserve or IdleReserve()
        self._reserve.join(self)
        self._is_closed = False
        self._in_use = 0
        self._opened = 0
        self._reused = 0
        self._resent = 0

    def exchange(self, request: UpstreamRequest) -> AbstractAsyncContextManager[UpstreamResponse]:
        """See Upstream.exchange."""
        exchange, total_s = Exchange(self, request), self._timeouts.total_s
        return exchange if total_s is None else in_time(exchange, total_s, self._peer)

    def move(self, address: UpstreamAddress) -> None:
        """See Upstream.move."""
        self._address = address
        self._peer = address.peer
        for connection in list(self._idle):
            connection.abort()

    async def aclose(self) -> None:
        """Closes every connection; exchanges under way fail with UpstreamClosedError."""
        self._is_closed = True
        self._reserve.leave(self)
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        going = [connection.lost for connection in self._open]
        for connection in list(self._open):
            connection.abort(UpstreamClosedError(said_of(self._peer, "the pool was closed")))
        if going:
            await asyncio.wait(going)

    def snapshot(self) -> PoolSnapshot:
        return PoolSnapshot(
            in_use=self._in_use,
            idle=len(self._idle),
            opened=self._opened,
            reused=self._reused,
            resent=self._resent,
        )

    def __repr__(self) -> str:
        return f"<ConnectionPool {self._peer} in_use={self._in_use} idle={len(self._idle)}>"

    # What the reserve calls: see KeepsIdle.

    @property
    def connections(self) -> int:
        return self._in_use + len(self._idle)

    @property
    def oldest_idle_since(self) -> float | None:
        oldest = next(iter(self._idle), None)
        return None if oldest is None else oldest.idle_since

    def give_up_oldest_idle(self) -> asyncio.Future[None]:
        oldest = next(iter(self._idle))
        del self._idle[oldest]
        oldest.abort()
        return oldest.lost

    # What an exchange calls.

    async def ask(self, request: UpstreamRequest) -> Connection:
        """Sends the request over an idle or a fresh connection; returns when the head is there."""
        self._in_use += 1
        try:
            loop = self._running_loop()
            total_s = self._timeouts.total_s
            total_at = inf if total_s is None else loop.time() + total_s
            asked_at = loop.time()
            connection = self._take_idle(asked_at)
            closed = None
            if connection is not None:
                self._reused += 1
                try:
                    await connection.ask(request, total_at)
                except UpstreamClosedError as error:
                    if connection.has_answered:
                        raise
                    error.__traceback__ = None  # it leads to the connection, which keeps the error
                    self._resent += 1
                    if loop.time() - asked_at > IDLE_RACE_S:
                        closed = error
                else:
                    return connection
            connection = await self._connect(loop, total_at, closed)
            await connection.ask(request, total_at)
        except BaseException:
            self._in_use -= 1
            raise
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keeps the connection for the next request, or aborts it when it cannot serve one."""
        self._in_use -= 1
        has_moved = connection.peer != self._peer
        if self._is_closed or has_moved or not connection.is_reusable:
            connection.abort()
            return
        connection.rest()
        self._idle[connection] = None
        if self._expiry_timer is None:
            self._arm_expiry(connection)

    # Opening and closing.

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._is_closed:
            raise UpstreamConnectError(said_of(self._peer, "the pool is closed"))
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    async def _connect(
        self,
        loop: asyncio.AbstractEventLoop,
        total_at: float,
        closed: UpstreamClosedError | None,
    ) -> Connection:
        """Raises `closed` where there is one, when it fails."""
        connection = Connection(loop, self._peer, self._timeouts, self._forget)
        limit_s = min(self._timeouts.connect_s, total_at - loop.time())
        try:
            async with time_limit(limit_s) as timeout:
                await self._establish(loop, connection)
        except (OSError, UnicodeError, ssl.CertificateError) as error:
            connection.abort()
            if closed is not None:
                raise closed from error
            reason = f"no connection within {limit_s:.3g} s" if timeout.expired() else _said(error)
            raise UpstreamConnectError(said_of(self._peer, reason), error) from error
        except BaseException:
            connection.abort()
            raise
        self._opened += 1
        self._open.add(connection)
        connection.lost.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    async def _establish(self, loop: asyncio.AbstractEventLoop, connection: Connection) -> None:
        address = self._address
        self._reserve.make_room()
        while True:
            try:
                await loop.create_connection(lambda: connection, address.connects_to, address.port)
                break
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS or not await self._reserve.free_one():
                    raise
        if self._ssl_context is not None:
            await connection.secure(self._ssl_context, address.host)
        if self._is_closed:
            raise ConnectionAbortedError("the pool is closed")

    def _take_idle(self, now: float) -> Connection | None:
        """The connection that was used last: the likeliest to be alive."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if now - connection.idle_since < self._idle_expiry_s and connection.is_reusable:
                return connection
            connection.abort()
        return None

    def _forget(self, connection: Connection) -> None:
        self._idle.pop(connection, None)

    # Idle expiry: one timer, set for the connection that has rested longest.

    def _arm_expiry(self, oldest: Connection) -> None:
        due = oldest.idle_since + self._idle_expiry_s
        self._expiry_timer = asyncio.get_running_loop().call_at(due, self._close_expired)

    def _close_expired(self) -> None:
        self._expiry_timer = None
        now = asyncio.get_running_loop().time()
        for connection in list(self._idle):
            if now < connection.idle_since + self._idle_expiry_s:
                self._arm_expiry(connection)
                return
            connection.abort()


class Exchange:
    """One request and its response: the context manager, and what it gives."""

    __slots__ = ("_connection", "_pool", "_request", "headers", "status")

    def __init__(self, pool: ConnectionPool, request: UpstreamRequest) -> None:
        self._pool = pool
        self._request = request
        self._connection: Connection | None = None
        self.status = 0
        self.headers: RawHeaders = []

    async def __aenter__(self) -> Self:
        self._connection = connection = await self._pool.ask(self._request)
        self.status = connection.status
        self.headers = connection.headers
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(connection)

    def read(self) -> Coroutine[Any, Any, bytes]:
        """See UpstreamResponse.read."""
        return self._entered().read()

    def pass_to(self, take: Take, room: Room) -> Coroutine[Any, Any, None]:
        """See UpstreamResponse.pass_to."""
        return self._entered().pass_to(take, room)

    @property
    def is_readable(self) -> bool:
        """See UpstreamResponse.is_readable."""
        return self._entered().is_readable

    @property
    def is_exhausted(self) -> bool:
        """See UpstreamResponse.is_exhausted."""
        return self._entered().is_exhausted

    def _entered(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("a response can be read only inside its exchange")
        return self._connection


def _said(error: BaseException) -> str:
    """The operating system's words; some errors have none."""
    return str(error) or type(error).__name__


def _default_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context

"""The hop to the engine without sockets: an `Upstream` that talks to an ASGI app in memory.

With it the whole gateway runs in virtual time, in front of a scripted app or of the simulated
engine. It streams, holds the engine back when nobody reads, aborts when it is left early, and
fails as the two real clients do.
"""

from __future__ import annotations

import asyncio
import contextlib
from math import inf
from typing import TYPE_CHECKING

from proxy.upstream.errors import (
    UpstreamClosedError,
    UpstreamConnectError,
    UpstreamError,
    UpstreamTimeoutError,
)
from proxy.upstream.port import UpstreamTimeouts, pass_by_reading
from proxy.upstream.request_sender import slices
from proxy.upstream.total_limit import in_time, took_too_long
from tests.support.asgi_transport import AsgiClient, NoResponseError
from tests.support.virtual_time import now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from proxy.upstream.port import (
        RawHeaders,
        Room,
        Take,
        UpstreamRequest,
        UpstreamResponse,
    )
    from tests.support.asgi_transport import App, AsgiExchange, Head

# What the engine may have sent without anybody having read it: as much as socket buffers take in.
_ROOM_BYTES = 65_536


class InMemoryUpstream:
    """`fails_with` makes every new exchange fail before it begins, as a dead engine would.

    `sent` lists the requests, `in_flight` and `peak` count open exchanges, `aborted_at` has the
    moments at which an exchange was left before the engine had finished its answer. Of
    `timeouts`, all but that of connecting are kept.
    """

    def __init__(self, app: App, timeouts: UpstreamTimeouts | None = None) -> None:
        self._client = AsgiClient(app, host=b"engine.test")
        self._timeouts = timeouts or UpstreamTimeouts()
        self.fails_with: UpstreamError | None = None
        self.sent: list[UpstreamRequest] = []
        self.aborted_at: list[float] = []
        self.in_flight = 0
        self.peak = 0
        self.closed = False

    def exchange(self, request: UpstreamRequest) -> AbstractAsyncContextManager[UpstreamResponse]:
        exchange, total_s = self._exchange(request), self._timeouts.total_s
        return exchange if total_s is None else in_time(exchange, total_s, "engine.test")

    @contextlib.asynccontextmanager
    async def _exchange(self, request: UpstreamRequest) -> AsyncIterator[InMemoryResponse]:
        if self.fails_with is not None:
            raise self.fails_with
        self.sent.append(request)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        body = b"".join(slices(request.body))
        exchange = self._client.start(request.method, request.target, request.headers, body)
        try:
            head = await self._head(exchange)
            exchange.stop_reading(_ROOM_BYTES)
            yield InMemoryResponse(exchange, head, self._timeouts.idle_s)
        finally:
            self.in_flight -= 1
            if not exchange.completed and not exchange.disconnected:
                self.aborted_at.append(now())
                exchange.disconnect()

    async def aclose(self) -> None:
        self.closed = True

    async def _head(self, exchange: AsgiExchange) -> Head:
        total_s = self._timeouts.total_s
        try:
            async with asyncio.timeout(min(self._timeouts.first_byte_s, total_s or inf)):
                return await exchange.head()
        except TimeoutError:
            if total_s is not None and total_s < self._timeouts.first_byte_s:
                raise took_too_long("engine.test", total_s) from None
            silence = f"no response within {self._timeouts.first_byte_s:g} s"
            raise UpstreamTimeoutError(silence) from None
        except NoResponseError:
            raise UpstreamClosedError("closed the connection without a response") from None
        except ConnectionRefusedError:
            raise UpstreamConnectError("connection refused") from None


class InMemoryResponse:
    """The response of one exchange."""

    def __init__(self, exchange: AsgiExchange, head: Head, idle_s: float) -> None:
        self.status = head.status
        self.headers: RawHeaders = head.headers
        self._exchange = exchange
        self._idle_s = idle_s

    @property
    def is_exhausted(self) -> bool:
        return self._exchange.completed and not self._exchange.has_unread

    @property
    def is_readable(self) -> bool:
        return self._exchange.has_unread or self._exchange.completed

    async def read(self) -> bytes:
        try:
            async with asyncio.timeout(self._idle_s):
                chunk = await self._exchange.next_chunk()
        except TimeoutError:
            raise UpstreamTimeoutError(f"silent for {self._idle_s:g} s") from None
        if not chunk and not self._exchange.completed:
            raise UpstreamClosedError("closed the connection before the response was complete")
        return chunk

    async def pass_to(self, take: Take, room: Room) -> None:
        await pass_by_reading(self, take, room)

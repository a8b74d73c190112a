"""The same Upstream over httpx, for what the own pool does not do: https through a forward proxy.

It rests on httpx's transport rather than on httpx.AsyncClient: the client would add accept,
accept-encoding and user-agent, keep cookies, follow redirects and log URLs; the transport sends
what it is given.

What differs from the own pool, because httpx 0.28 over httpcore 1.0 and h11 0.16 is what it is
(the conformance suite states each difference):

- An answer that comes while the request body is still being sent is noticed only when a write
  fails or the body is through.
- Folded header lines and bare LF line ends are accepted, and read as h11 reads them.
- Bytes after the end of a response are read as the response to the next request on that
  connection. Use it in front of engines that you trust.
- Idle connections are closed when the pool is next used, not by a timer; nor for want of a
  descriptor.
- "No response byte" means "no complete response head": a reused connection that dies in the middle
  of the head is followed by the one re-send too.
- The first-byte timeout bounds the whole response head, and interim answers without end.
- A connect that nobody waits for any more is seen to its end; `aclose()` waits for that.
- A target with bytes outside printable ASCII is refused with ValueError.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from math import inf
from typing import TYPE_CHECKING, Self, TypeVar

import httpx

from proxy.upstream.errors import (
    UpstreamClosedError,
    UpstreamConnectError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
    said_of,
)
from proxy.upstream.httpx_attempt import Attempt, shut_down
from proxy.upstream.late_expiry import TimeLimit
from proxy.upstream.pool import IDLE_EXPIRY_S, IDLE_RACE_S
from proxy.upstream.port import UpstreamTimeouts, pass_by_reading
from proxy.upstream.request_sender import encode_head
from proxy.upstream.response_head import (
    MAX_HEAD_BYTES,
    announced_bytes,
    head_size,
    violation_of_head,
)
from proxy.upstream.total_limit import in_time, took_too_long

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from proxy.upstream.address import UpstreamAddress
    from proxy.upstream.port import RawHeaders, Room, Take, UpstreamRequest, UpstreamResponse

    _Reading = asyncio.Task[bytes]

_T = TypeVar("_T")

# How httpcore and h11 word an end of stream; they have no exception of its own for it.
_ENDED_EARLY = ("Server disconnected", "peer closed", "peer unexpectedly closed")
_QUOTED_BYTES = re.compile(r":? (?:bytearray\(|b['\"])")


class HttpxUpstream:
    """An Upstream over httpx. `proxy` is the URL of a forward proxy; the environment (HTTP_PROXY
    and the like) is never asked. `ssl_context` is for https; default: the system's authorities."""

    def __init__(
        self,
        address: UpstreamAddress,
        timeouts: UpstreamTimeouts | None = None,
        *,
        ssl_context: ssl.SSLContext | None = None,
        idle_expiry_s: float = IDLE_EXPIRY_S,
        proxy: str | None = None,
    ) -> None:
        self._timeouts = timeouts or UpstreamTimeouts()
        self.move(address)
        context = ssl_context or _default_context(is_tls=address.is_tls)
        self._kept = _transport(context, proxy, idle_expiry_s, max_idle=None)
        # Keeps no connection, so that a re-send always gets a fresh one.
        self._unkept = _transport(context, proxy, idle_expiry_s, max_idle=0)
        self._closings: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def exchange(self, request: UpstreamRequest) -> AbstractAsyncContextManager[UpstreamResponse]:
        """See Upstream.exchange."""
        exchange, total_s = HttpxExchange(self, request), self._timeouts.total_s
        return exchange if total_s is None else in_time(exchange, total_s, self._peer)

    def move(self, address: UpstreamAddress) -> None:
        """See Upstream.move. httpx keeps connections by origin, so those to another rest unused
        until they expire."""
        self._peer = address.peer
        self._origin = httpx.URL(
            scheme=address.scheme, host=address.connects_to, port=address.port, path="/"
        )
        self._server_name = address.host if address.ip else None

    async def aclose(self) -> None:
        """See Upstream.aclose."""
        self._is_closed = True
        await self._kept.aclose()
        await self._unkept.aclose()
        if self._closings:
            await asyncio.wait(self._closings)

    # What an exchange calls.

    async def ask(self, request: UpstreamRequest) -> httpx.Response:
        """Sends the request; returns when the head is there. Raises UpstreamError."""
        if self._is_closed:
            raise UpstreamConnectError(self._says("the client is closed"))
        encode_head(request)  # raises ValueError for what must not reach the wire
        attempt = self._attempt(request)
        asked_at = asyncio.get_running_loop().time()
        total_at = asked_at + (self._timeouts.total_s or inf)
        try:
            return await self._send(attempt, self._kept, total_at)
        except UpstreamClosedError as error:
            if attempt.is_fresh:
                raise
            closed = error
        may_be_read = asyncio.get_running_loop().time() - asked_at > IDLE_RACE_S
        attempt = self._attempt(request)
        try:
            return await self._send(attempt, self._unkept, total_at)
        except UpstreamConnectError as error:
            if may_be_read:
                raise closed from error
            raise

    def _attempt(self, request: UpstreamRequest) -> Attempt:
        return Attempt(request, self._origin, self._timeouts, self._server_name)

    async def _send(
        self, attempt: Attempt, transport: httpx.AsyncHTTPTransport, total_at: float
    ) -> httpx.Response:
        sending = asyncio.ensure_future(transport.handle_async_request(attempt.request))
        total = TimeLimit(total_at)
        try:
            async with total, attempt.first_byte:
                response = await _unharmed(sending)
        except httpx.LocalProtocolError as error:
            raise ValueError(str(error)) from error
        except (httpx.HTTPError, TimeoutError) as error:
            self._abandon(attempt, sending)
            if total.expired():
                raise took_too_long(self._peer, self._timeouts.total_s) from error
            raise self.error_for(error) from error
        except BaseException as error:
            self._abandon(attempt, sending)
            if isinstance(error, AttributeError) and error.name == "getpeername":
                # anyio asks for the peer of a connection that uvloop has seen reset meanwhile.
                raise UpstreamClosedError(self._says("reset as soon as it was made")) from error
            raise
        violation = _violation(response)
        if violation is not None:
            shut_down(response.extensions["network_stream"])
            await self.close(response)
            raise UpstreamProtocolError(self._says(violation))
        return response

    def _abandon(self, attempt: Attempt, sending: asyncio.Task[httpx.Response]) -> None:
        if not sending.done():
            attempt.abandon(sending)
        self._keep_until_done(asyncio.ensure_future(_bury(sending)))

    async def close(self, response: httpx.Response, reading: _Reading | None = None) -> None:
        """Gives the connection back if the response was read to its end; else closes it."""
        closing = asyncio.ensure_future(_close(response, reading))
        self._keep_until_done(closing)
        await _unharmed(closing)  # it goes on when whoever asked for it is cancelled (again)

    def _keep_until_done(self, closing: asyncio.Task[None]) -> None:
        self._closings.add(closing)
        closing.add_done_callback(self._closings.discard)

    def error_for(self, error: Exception) -> UpstreamError:
        """The error of our closed set that an httpx error stands for."""
        limits = self._timeouts
        match error:
            case httpx.ConnectTimeout():
                return UpstreamConnectError(
                    self._says(f"no connection within {limits.connect_s:g} s")
                )
            case httpx.ConnectError() | httpx.ProxyError():
                return UpstreamConnectError(self._says(_said(error)), error)
            case httpx.ReadTimeout():
                return UpstreamTimeoutError(self._says(f"it fell silent for {limits.idle_s:g} s"))
            case httpx.WriteTimeout():
                what = f"it did not read our request for {limits.idle_s:g} s"
                return UpstreamTimeoutError(self._says(what))
            case TimeoutError():
                what = f"it did not answer within {limits.first_byte_s:g} s"
                return UpstreamTimeoutError(self._says(what))
            case httpx.RemoteProtocolError() if not str(error).startswith(_ENDED_EARLY):
                return UpstreamProtocolError(self._says(_unquoted(str(error))))
        return UpstreamClosedError(self._says(_said(error)))

    def silent_at(self) -> float:
        """The moment at which a silence that begins now is too long."""
        return asyncio.get_running_loop().time() + self._timeouts.idle_s

    def _says(self, what: str) -> str:
        return said_of(self._peer, what)


class HttpxExchange:
    """One request and its response: the context manager, and what it gives."""

    def __init__(self, upstream: HttpxUpstream, request: UpstreamRequest) -> None:
        self._upstream = upstream
        self._request = request
        self._response: httpx.Response | None = None
        self._parts: AsyncIterator[bytes] | None = None
        self._reading: _Reading | None = None
        self._failure: UpstreamError | None = None
        self._left: float = inf  # bytes of the body, where their number is known beforehand
        self.status = 0
        self.headers: RawHeaders = []
        self.is_readable = False
        self.is_exhausted = False

    async def __aenter__(self) -> Self:
        response = await self._upstream.ask(self._request)
        self._response = response
        self._parts = aiter(response.stream)  # type: ignore[arg-type] # always the async kind here
        self.status = response.status_code
        self.headers = response.headers.raw
        self._left = announced_bytes(self._request.method, self.status, self.headers)
        self.is_readable = self._left == 0  # of others httpx does not tell
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        response, self._response = self._response, None
        self._parts = None
        if response is None:
            return
        if not self.is_exhausted:
            shut_down(response.extensions["network_stream"])
        await self._upstream.close(response, self._reading)

    async def read(self) -> bytes:
        """See UpstreamResponse.read."""
        if self._parts is None:
            raise RuntimeError("a response can be read only inside its exchange")
        if self._failure is not None:
            raise self._failure
        silence = TimeLimit(self._upstream.silent_at())
        try:
            async with silence:
                part = await self._next(self._parts)
                self._left -= len(part)
                if part and not self._left:
                    # No further byte is waited for. Whoever has the last one of a body may see that
                    # and leave, so they must not have it before we know that it was the last.
                    await self._next(self._parts)
                    self.is_exhausted = True
        except (httpx.HTTPError, TimeoutError) as error:
            told = httpx.ReadTimeout("") if silence.expired() else error
            self._failure = self._upstream.error_for(told)
            raise self._failure from error
        self.is_exhausted = self.is_exhausted or not part
        return part

    async def _next(self, parts: AsyncIterator[bytes]) -> bytes:
        self._reading = asyncio.ensure_future(_next_part(parts))
        return await _unharmed(self._reading)

    async def pass_to(self, take: Take, room: Room) -> None:
        """See UpstreamResponse.pass_to."""
        await pass_by_reading(self, take, room)


async def _unharmed(work: asyncio.Future[_T]) -> _T:
    """What it gives; it goes on when whoever waits for it is cancelled. (asyncio.shield would tell
    the loop of its failure then, from Python 3.14 on, although somebody else looks at that.)"""
    await asyncio.wait([work])
    return work.result()


def _transport(
    context: ssl.SSLContext, proxy: str | None, idle_expiry_s: float, max_idle: int | None
) -> httpx.AsyncHTTPTransport:
    limits = httpx.Limits(
        max_connections=None, max_keepalive_connections=max_idle, keepalive_expiry=idle_expiry_s
    )
    return httpx.AsyncHTTPTransport(verify=context, trust_env=False, proxy=proxy, limits=limits)


def _default_context(*, is_tls: bool) -> ssl.SSLContext:
    """httpx wants a context in any case; the authorities are loaded only if it will be used."""
    return ssl.create_default_context() if is_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _violation(response: httpx.Response) -> str | None:
    version = response.extensions["http_version"].decode().removeprefix("HTTP/")
    fields = response.headers.raw
    if head_size(fields) > MAX_HEAD_BYTES:
        return f"its response head is longer than {MAX_HEAD_BYTES} bytes"
    return violation_of_head(version, response.status_code, fields)


async def _next_part(parts: AsyncIterator[bytes]) -> bytes:
    return await anext(parts, b"")  # httpcore yields no empty part


async def _close(response: httpx.Response, reading: _Reading | None) -> None:
    if reading is not None:
        await asyncio.wait([reading])  # it ends: its socket was shut down
        if not reading.cancelled():
            reading.exception()  # looked at, or asyncio complains
    await response.aclose()


async def _bury(sending: asyncio.Task[httpx.Response]) -> None:
    """Sees an abandoned attempt to its end, and closes what it brought."""
    await asyncio.wait([sending])
    if not sending.cancelled() and sending.exception() is None:
        shut_down(sending.result().extensions["network_stream"])
        await sending.result().aclose()


def _unquoted(text: str) -> str:
    """h11's words without the bytes that it could not read: an engine's are nobody's business."""
    return _QUOTED_BYTES.split(text, maxsplit=1)[0]


def _said(error: BaseException) -> str:
    """The words of the operating system, below the exceptions that httpx and httpcore wrap round
    them."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return str(error) or type(error).__name__

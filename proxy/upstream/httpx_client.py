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
- Idle connections are closed when the pool is next used, not by a timer.
- "No response byte" means "no complete response head": a reused connection that dies in the middle
  of the head is followed by the one re-send too.
- The first-byte timeout bounds the whole response head.
- A target with bytes outside printable ASCII is refused with ValueError.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from math import inf
from typing import TYPE_CHECKING, Self

import httpx

from proxy.upstream.errors import (
    UpstreamClosedError,
    UpstreamConnectError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from proxy.upstream.pool import IDLE_EXPIRY_S
from proxy.upstream.port import UpstreamTimeouts
from proxy.upstream.request_sender import SLICE_BYTES, encode_head, framing_fields
from proxy.upstream.response_head import MAX_HEAD_BYTES, head_size, violation_of_head

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType
    from typing import Any

    from proxy.upstream.address import UpstreamAddress
    from proxy.upstream.port import RawHeaders, UpstreamRequest

# How httpcore words an end of stream; it has no exception of its own for it.
_ENDED_EARLY = ("Server disconnected", "peer closed connection")


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
        self._peer = address.authority.decode()
        context = ssl_context or _default_context(is_tls=address.is_tls)
        self._kept = _transport(context, proxy, idle_expiry_s, max_idle=None)
        # Keeps no connection, so that a re-send always gets a fresh one.
        self._unkept = _transport(context, proxy, idle_expiry_s, max_idle=0)
        # The request target travels beside it, out of reach of httpx's notion of a URL.
        self._origin = httpx.URL(f"{address.scheme}://{self._peer}/")
        self._closings: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def exchange(self, request: UpstreamRequest) -> HttpxExchange:
        """See Upstream.exchange."""
        return HttpxExchange(self, request)

    async def aclose(self) -> None:
        """See Upstream.aclose."""
        self._is_closed = True
        await self._kept.aclose()
        await self._unkept.aclose()
        await asyncio.gather(*self._closings)

    # What an exchange calls.

    async def ask(self, request: UpstreamRequest, total_at: float) -> httpx.Response:
        """Sends the request; returns when the head is there. Raises UpstreamError."""
        if self._is_closed:
            raise UpstreamConnectError(self._says("the client is closed"))
        encode_head(request)  # raises ValueError for what must not reach the wire
        attempt = _Attempt(request, self._origin, self._timeouts)
        try:
            return await self._send(attempt, self._kept, total_at)
        except UpstreamClosedError:
            if attempt.is_fresh:
                raise
        attempt = _Attempt(request, self._origin, self._timeouts)
        return await self._send(attempt, self._unkept, total_at)

    async def _send(
        self, attempt: _Attempt, transport: httpx.AsyncHTTPTransport, total_at: float
    ) -> httpx.Response:
        try:
            async with asyncio.timeout_at(_or_none(total_at)), attempt.first_byte:
                response = await transport.handle_async_request(attempt.request)
        except httpx.LocalProtocolError as error:
            raise ValueError(str(error)) from error
        except (httpx.HTTPError, TimeoutError) as error:
            raise self.error_for(error) from error
        attempt.use_idle_timeout()
        violation = _violation(response)
        if violation is not None:
            await self.close_now(response)
            raise UpstreamProtocolError(self._says(violation))
        return response

    def error_for(self, error: Exception) -> UpstreamError:
        """The error of our closed set that an httpx error stands for."""
        limits = self._timeouts
        match error:
            case httpx.ConnectTimeout():
                return UpstreamConnectError(self._says(f"no connection in {limits.connect_s:g} s"))
            case httpx.ConnectError() | httpx.ProxyError():
                return UpstreamConnectError(self._says(_said(error)))
            case httpx.ReadTimeout():
                return UpstreamTimeoutError(self._says(f"it fell silent for {limits.idle_s:g} s"))
            case httpx.WriteTimeout():
                what = f"it did not read our request for {limits.idle_s:g} s"
                return UpstreamTimeoutError(self._says(what))
            case TimeoutError():
                limit = f"{limits.first_byte_s:g} s"
                if limits.total_s is not None:
                    limit += f", or took longer than {limits.total_s:g} s in all"
                return UpstreamTimeoutError(self._says(f"it did not answer within {limit}"))
            case httpx.RemoteProtocolError() if not str(error).startswith(_ENDED_EARLY):
                return UpstreamProtocolError(self._says(str(error)))
        return UpstreamClosedError(self._says(_said(error)))

    def total_at(self) -> float:
        """The moment at which an exchange that starts now has taken too long."""
        total_s = self._timeouts.total_s
        return inf if total_s is None else asyncio.get_running_loop().time() + total_s

    async def close_now(self, response: httpx.Response) -> None:
        """Closes the connection under an unfinished response.

        httpcore waits for a lock before it closes, and a second cancellation in that moment would
        leave the connection open for good. So the socket is shut down first, and the rest is
        done in a task of its own that no cancellation of ours reaches.
        """
        _shut_down(response)
        await self.release(response)

    async def release(self, response: httpx.Response) -> None:
        """Gives the connection back, if the response is complete; else closes it."""
        closing = asyncio.ensure_future(response.aclose())
        self._closings.add(closing)
        closing.add_done_callback(self._closings.discard)
        await asyncio.shield(closing)

    def _says(self, what: str) -> str:
        return f"engine at {self._peer}: {what}"


class HttpxExchange:
    """One request and its response: the context manager, and what it gives."""

    def __init__(self, upstream: HttpxUpstream, request: UpstreamRequest) -> None:
        self._upstream = upstream
        self._request = request
        self._response: httpx.Response | None = None
        self._parts: AsyncIterator[bytes] | None = None
        self._failure: UpstreamError | None = None
        self._total_at = inf
        self.status = 0
        self.headers: RawHeaders = []
        self.is_exhausted = False

    async def __aenter__(self) -> Self:
        self._total_at = self._upstream.total_at()
        response = await self._upstream.ask(self._request, self._total_at)
        self._response = response
        self._parts = aiter(response.stream)  # type: ignore[arg-type] # always the async kind here
        self.status = response.status_code
        self.headers = response.headers.raw
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
        if self.is_exhausted:
            await self._upstream.release(response)
        else:
            await self._upstream.close_now(response)

    async def read(self) -> bytes:
        """See UpstreamResponse.read."""
        if self._parts is None:
            raise RuntimeError("a response can be read only inside its exchange")
        if self._failure is not None:
            raise self._failure
        try:
            async with asyncio.timeout_at(_or_none(self._total_at)):
                part = await anext(self._parts, b"")  # httpcore yields no empty part
        except (httpx.HTTPError, TimeoutError) as error:
            self._failure = self._upstream.error_for(error)
            raise self._failure from error
        self.is_exhausted = not part
        return part


class _Attempt:
    """One try at one request, as httpx wants it told."""

    def __init__(
        self, request: UpstreamRequest, origin: httpx.URL, timeouts: UpstreamTimeouts
    ) -> None:
        self._timeouts = timeouts
        self.is_fresh = False
        self.first_byte = asyncio.timeout(None)
        # httpcore looks the values up when it needs them, so they can change on the way. "write"
        # bounds one slice of the body; while the head is awaited `first_byte` does the timing.
        self._limits: dict[str, float | None] = {
            "connect": timeouts.connect_s,
            "write": timeouts.idle_s,
            "read": None,
            "pool": None,
        }
        self.request = httpx.Request(
            request.method,
            origin,
            headers=[
                # h11 insists on values without the blanks that may surround them on the wire.
                (name, value.strip(b" \t"))
                for name, value in [*request.headers, *framing_fields(request)]
            ],
            stream=_Slices(request.body),
            extensions={"target": request.target, "timeout": self._limits, "trace": self._trace},
        )

    def use_idle_timeout(self) -> None:
        self._limits["read"] = self._timeouts.idle_s

    async def _trace(self, event: str, _info: dict[str, Any]) -> None:
        if event == "connection.connect_tcp.started":
            self.is_fresh = True
        elif event == "http11.send_request_body.complete":
            now = asyncio.get_running_loop().time()
            self.first_byte.reschedule(now + self._timeouts.first_byte_s)


class _Slices(httpx.AsyncByteStream):
    """A request body in pieces, each of which may take as long as a write may take."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._body), SLICE_BYTES):
            yield self._body[start : start + SLICE_BYTES]


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


def _shut_down(response: httpx.Response) -> None:
    """FIN, at once. By way of a second descriptor: uvloop's socket object offers no more."""
    connected = response.extensions["network_stream"].get_extra_info("socket")
    with contextlib.suppress(OSError):
        twin = socket.socket(fileno=os.dup(connected.fileno()))
        with twin:
            twin.shutdown(socket.SHUT_RDWR)


def _said(error: BaseException) -> str:
    """The words of the operating system, below the exceptions that httpx and httpcore wrap round
    them."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return str(error) or type(error).__name__


def _or_none(at: float) -> float | None:
    return None if at == inf else at

"""One try at one request over httpx, and how to be rid of it at once."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any, Protocol

import httpx

from proxy.upstream.late_expiry import TimeLimit
from proxy.upstream.request_sender import framing_fields, slices

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from proxy.upstream.port import InBlocks, UpstreamRequest, UpstreamTimeouts


class NetworkStream(Protocol):
    """What httpcore calls a connection, as far as it is used here."""

    def get_extra_info(self, info: str) -> Any: ...  # noqa: ANN401 - as httpcore has it


class Attempt:
    """One try at one request, as httpx wants it told.

    Once begun it is not cancelled from outside: httpcore and anyio lose the connection when a
    cancellation meets them between two steps (just connected, in the TLS handshake, while closing).
    A connection that is not wanted any more has its socket shut down instead, and then ends by
    their ordinary error paths.
    """

    def __init__(
        self,
        request: UpstreamRequest,
        origin: httpx.URL,
        timeouts: UpstreamTimeouts,
        server_name: str | None = None,
    ) -> None:
        """`server_name` is what TLS asks for where the origin's host is a bare IP address."""
        self._timeouts = timeouts
        self.is_fresh = False
        self._stream: NetworkStream | None = None
        self._is_abandoned = False
        self.first_byte = TimeLimit()
        # "write" bounds one slice of the body. What is read is timed by us, who know better what to
        # make of a limit that is noticed late: the head by `first_byte`.
        limits = {
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
            extensions={
                "timeout": limits,
                "trace": self._trace,
                **({"sni_hostname": server_name} if server_name else {}),
            },
        )
        self.request.url = _ExactUrl(origin, request.target)

    def abandon(self, sending: asyncio.Task[httpx.Response]) -> None:
        """Nobody waits for the response any more: the engine is to see that at once."""
        self._is_abandoned = True
        if self._stream is not None:
            shut_down(self._stream)
        elif not self.is_fresh:
            sending.cancel()  # harmless on a connection that has served before
        # Else it is connecting, which the connect timeout bounds; `_trace` does the rest.

    async def _trace(self, event: str, info: dict[str, Any]) -> None:
        if event == "connection.connect_tcp.started":
            self.is_fresh = True
        elif event == "connection.connect_tcp.complete":
            self._stream = info["return_value"]
            if self._is_abandoned:
                shut_down(self._stream)
        elif event == "http11.send_request_body.complete" and not self._is_abandoned:
            now = asyncio.get_running_loop().time()
            self.first_byte.reschedule(now + self._timeouts.first_byte_s)


class _ExactUrl(httpx.URL):
    """A URL whose path and query are left as they are. (httpcore has an extension for that, but
    applies it to the CONNECT request of a forward proxy too.)"""

    def __init__(self, origin: httpx.URL, target: bytes) -> None:
        super().__init__(origin)
        self._target = target

    @property
    def raw_path(self) -> bytes:
        return self._target


class _Slices(httpx.AsyncByteStream):
    """A request body in pieces, each of which may take as long as a write may take."""

    def __init__(self, body: bytes | InBlocks) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in slices(self._body):
            yield bytes(piece)


def shut_down(stream: NetworkStream) -> None:
    """FIN, at once. By way of a second object for the socket, as uvloop's offers no more; not of a
    second descriptor, of which there may be none left."""
    connected = stream.get_extra_info("socket")
    with contextlib.suppress(OSError, ValueError):  # ValueError: it is closed
        twin = socket.socket(fileno=connected.fileno())
        try:
            twin.shutdown(socket.SHUT_RDWR)
        finally:
            twin.detach()

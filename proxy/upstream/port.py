"""The HTTP hop to the engine, as the rest of Sluice sees it.

Two implementations pass one conformance suite: the own HTTP/1.1 pool (`pool.py`) and an httpx
client (`httpx_client.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from proxy.upstream.address import UpstreamAddress

RawHeaders = list[tuple[bytes, bytes]]
Take = Callable[[bytes, bool], bool]
Room = Callable[[], Awaitable[None]]


class InBlocks(Protocol):
    """A body too large to be in one piece."""

    @property
    def blocks(self) -> Sequence[bytes]: ...

    def __len__(self) -> int: ...


@dataclass(slots=True)
class UpstreamRequest:
    """What goes on the wire. `headers` are final but for framing: the client adds Content-Length.

    `target` is the raw request target (path and query) as sent; it is never normalized.
    `body` may be sent a second time, on a fresh connection, when a reused connection died before
    any response byte.
    """

    method: str
    target: bytes
    headers: RawHeaders
    body: bytes | InBlocks = b""


@dataclass(frozen=True, slots=True)
class UpstreamTimeouts:
    """Seconds. `first_byte_s` runs from the request being sent to the first byte of the final
    response head; `idle_s` is the longest silence between two chunks, and the longest the engine
    may refuse to read our request; `total_s` bounds the whole exchange (None: no bound)."""

    connect_s: float = 5.0
    first_byte_s: float = 600.0
    idle_s: float = 120.0
    total_s: float | None = None


class UpstreamResponse(Protocol):
    """A response whose head has come. `headers` are raw pairs in wire order, names as sent."""

    status: int
    headers: RawHeaders

    @property
    def is_exhausted(self) -> bool:
        """The body is complete and all of it has been read: the next `read()` gives b"". False
        promises nothing. Lets a relay mark its last chunk as the last one."""

    @property
    def is_readable(self) -> bool:
        """`read()` would return without waiting. False promises nothing. Lets a relay send the
        head together with the first of the body."""

    async def read(self) -> bytes:
        """Whatever body bytes are there, at least one; b"" once the body is complete.

        Chunked framing is removed, content codings are not. One caller at a time. Raises
        UpstreamError when the body breaks off, is malformed, or the engine falls silent.
        """

    async def pass_to(self, take: Take, room: Room) -> None:
        """Gives the whole body to `take`, piece by piece as it comes; returns once it is complete.

        take(data, is_last) is called in the step in which the data came, from the event loop's own
        callback where that is possible, so that no task needs to be woken for each piece. Only the
        last piece may be empty. When it returns False, room() is awaited before the next call.
        Raises as read() does, and whatever `take` raises. Not to be mixed with read().
        """


async def pass_by_reading(response: UpstreamResponse, take: Take, room: Room) -> None:
    """`pass_to` for a client that can only be read."""
    is_last = False
    while not is_last:
        data = await response.read()
        is_last = not data or response.is_exhausted
        if not take(data, is_last) and not is_last:
            await room()


class Upstream(Protocol):
    """Sends requests to one engine. Holds no limit of its own: permits are the limit."""

    def exchange(self, request: UpstreamRequest) -> AbstractAsyncContextManager[UpstreamResponse]:
        """Entering sends the request and waits for the response head.

        Leaving before the body is complete, for whatever reason (cancellation included), closes
        the connection at once, which is what makes vLLM abort the request. Entering raises
        UpstreamError; when it is cancelled the connection is closed too.
        """

    def move(self, address: UpstreamAddress) -> None:
        """The engine's URL is served at another IP address now: that is where new connections go.
        Exchanges under way end where they are."""

    async def aclose(self) -> None:
        """Closes every connection, those in use too."""


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """Connections by state, for tests and status."""

    in_use: int = 0
    idle: int = 0
    opened: int = 0
    reused: int = 0
    resent: int = field(default=0)

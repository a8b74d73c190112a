"""What the application may do to its client's connection, besides ASGI."""

from __future__ import annotations

import contextlib
import socket
import struct
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Scope

    from proxy.edge.connection import SluiceProtocol

CONNECTION_EXTENSION: Final = "sluice.connection"
"""Key in an ASGI scope's extensions under which a ClientConnection is found."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER, 0 s


@dataclass(frozen=True, slots=True)
class ConnectionRefusal:
    """The answer to a request that could not be read; nothing comes after it."""

    status: int
    code: str


class ClientConnection:
    """What the application may do to the connection under a request, besides ASGI."""

    __slots__ = ("_find",)

    def __init__(self, protocol: SluiceProtocol) -> None:
        # Weakly: the protocol has this in the scopes of its requests, and each connection that ends
        # would be a knot that only the collector could undo.
        self._find = weakref.ref(protocol)

    @property
    def _protocol(self) -> SluiceProtocol:
        """There as long as the connection is open or a request runs."""
        protocol = self._find()
        if protocol is None:  # pragma: no cover - a request that runs has it, by its ResponseCycle
            raise RuntimeError("the connection and all its requests are over")
        return protocol

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

    @property
    def refusal(self) -> ConnectionRefusal | None:
        """What the request under way was told when the rest of it could not be read."""
        return self._protocol.refusal

    def is_closing(self) -> bool:
        return self._protocol.transport.is_closing()

    @property
    def ends_before_body(self) -> bool:
        """The connection is not kept, and more of the request's body is still to come: an answer
        sent now would be cut off from the client by the reset that what is unread gives rise to."""
        running = self._protocol.running
        return running.more_body and not running.keep_alive

    def take_whole_body(self) -> bytes | None:
        """The request's body, once, if every byte of it is here; None if receive() must be used.

        That is so for nearly all requests, and saves the turn through receive() and a timer (5 us
        of 60, Python 3.11, 2026-12).
        """
        return self._protocol.running.take_whole_body()

    @property
    def write_body(self) -> Callable[[bytes, bool], bool]:
        """write_body(body, more_body): the next piece of an answer's body, after its start event,
        as http.response.body is sent, but in one synchronous step. False: the client reads slowly;
        await room() before more. May be kept until the answer is over."""
        return self._protocol.running.write_body

    async def room(self) -> None:
        """Until the client has read what was written, or is gone."""
        await self._protocol.flow.drain()

    def end_body_by_closing(self) -> None:
        """Before the response start: no chunked framing, the body ends with the connection."""
        self._protocol.running.ends_with_connection = True


def client_connection(scope: Scope) -> ClientConnection | None:
    """The connection under a request; None on a server that is not ours."""
    connection: ClientConnection | None = scope.get("extensions", {}).get(CONNECTION_EXTENSION)
    return connection

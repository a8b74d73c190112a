"""A client connection without a socket: bytes in, bytes out, and an app behind them.

wire = Wire(app)
wire.receives(b"GET / HTTP/1.1\r\n\r\n")
await settle()
assert wire.sent.startswith(b"HTTP/1.1 200")
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.server import ServerState

from proxy.edge.client_connection import ClientConnection, client_connection
from proxy.edge.connection import SluiceProtocol
from proxy.edge.entrance import enter_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class FakeTransport(asyncio.Transport):
    """Keeps what is written. `unsent` is how much of it the client has not read, set by the test.

    A closed one reports its loss, as real ones do, in the next turn of the loop.
    """

    def __init__(self, lost: Any) -> None:  # noqa: ANN401 - called with what connection_lost takes
        super().__init__({"peername": ("192.0.2.1", 50000), "sockname": ("192.0.2.2", 8080)})
        self._lost = lost
        self.written: list[bytes] = []
        self.unsent = 0
        self.ended: list[str] = []
        self.reads = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.ended:
            self.written.append(bytes(data))

    def close(self) -> None:
        if not self.ended:
            self._end("close")

    def abort(self) -> None:
        self._end("abort")

    def _end(self, how: str) -> None:
        if not self.ended:
            asyncio.get_running_loop().call_soon(self._lost, None)
        self.ended.append(how)

    def is_closing(self) -> bool:
        return bool(self.ended)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class Wire:
    """One connection to an app. `calls` are the scopes that it was called with.

    An app that can be asked at once is asked first, and then called as it says.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.calls: list[Scope] = []
        self._app = app
        if (enter := enter_of(app)) is not None:
            self.enter = enter
        config = uvicorn.Config(
            self,
            interface="asgi3",
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            timeout_keep_alive=75,
        )
        self._state = ServerState()
        loop = asyncio.get_running_loop()
        self.protocol = SluiceProtocol(config, self._state, {}, _loop=loop)
        self.transport = FakeTransport(self._lose)
        self._is_lost = False
        self.protocol.connection_made(self.transport)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls.append(scope)
        await self._app(scope, receive, send)

    def receives(self, data: bytes) -> None:
        """The client sends this."""
        self.protocol.data_received(data)

    def client_leaves(self) -> None:
        self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self.protocol.connection_lost(error)

    @property
    def sent(self) -> bytes:
        """All that the client was sent."""
        return b"".join(self.transport.written)

    @property
    def ended(self) -> list[str]:
        """How the connection was ended by this side, each time."""
        return self.transport.ended

    @property
    def connection(self) -> ClientConnection:
        """What the latest call may do to the connection."""
        connection = client_connection(self.calls[-1])
        assert connection is not None
        return connection

    async def done(self) -> None:
        """Waits for the app. Its failures were answered by the server."""
        while self._state.tasks:
            await asyncio.wait(self._state.tasks)

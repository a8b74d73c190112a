"""What the application may do to its client's connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.edge.client_connection import ClientConnection, client_connection
from proxy.edge.connection import SluiceProtocol
from tests.support.fake_wire import Wire
from tests.support.virtual_time import run, settle

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

POST = b"POST /1 HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n"


def test_another_server_has_none() -> None:
    assert client_connection({"type": "http"}) is None
    assert client_connection({"type": "http", "extensions": {}}) is None


def test_it_is_found_in_the_scope_of_every_request() -> None:
    async def scenario() -> None:
        async def app(scope: Scope, receive: Receive, _send: Send) -> None:
            found.append(client_connection(scope))
            while (await receive())["type"] != "http.disconnect":
                pass

        found: list[ClientConnection | None] = []
        wire = Wire(app)
        wire.receives(POST + b"{}")
        await settle()
        assert isinstance(found[0], ClientConnection)
        wire.client_leaves()
        await wire.done()

    run(scenario())


@pytest.mark.parametrize("way", ["close", "abort"])
def test_an_ended_connection_says_so(way: str) -> None:
    async def scenario() -> None:
        async def app(scope: Scope, receive: Receive, _send: Send) -> None:
            connection = client_connection(scope)
            assert connection is not None
            assert not connection.is_closing()
            getattr(connection, way)()
            assert connection.is_closing()
            while (await receive())["type"] != "http.disconnect":
                pass

        wire = Wire(app)
        wire.receives(POST + b"{}")
        await wire.done()
        assert wire.ended == [way]

    run(scenario())


@pytest.mark.parametrize(
    ("version", "more", "body", "ends"),
    [
        (b"1.0", b"", b"", True),
        (b"1.1", b"connection: close\r\n", b"{", True),
        (b"1.1", b"connection: close\r\n", b"{}", False),
        (b"1.1", b"", b"{", False),
    ],
)
def test_it_ends_before_the_body_if_it_is_not_kept_and_more_is_to_come(
    version: bytes, more: bytes, body: bytes, ends: bool
) -> None:
    async def scenario() -> None:
        async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        wire = Wire(app)
        head = POST.replace(b"1.1", version).replace(b"host: x\r\n", b"host: x\r\n" + more)
        wire.receives(head + body)
        await settle()
        assert wire.connection.ends_before_body is ends
        wire.client_leaves()
        await wire.done()

    run(scenario())


def test_an_abort_is_a_reset_on_the_wire() -> None:
    """A body that ends with its connection must not look complete."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        accepted: list[asyncio.Transport] = []

        class Accepting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                accepted.append(transport)  # type: ignore[arg-type]  # a socket's is one

        server = await loop.create_server(Accepting, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        while not accepted:
            await asyncio.sleep(0)
        protocol = SluiceProtocol.__new__(SluiceProtocol)
        protocol.transport = accepted[0]
        ClientConnection(protocol).abort()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        server.close()

    asyncio.run(scenario())

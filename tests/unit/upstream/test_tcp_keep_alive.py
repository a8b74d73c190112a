from __future__ import annotations

import asyncio
import socket

from proxy.upstream.tcp_keep_alive import keep_alive


def test_a_silent_connection_is_kept_known_to_what_lies_between() -> None:
    async def scenario() -> None:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            keep_alive(writer.transport)
            connected = writer.get_extra_info("socket")
            assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
            writer.close()

    asyncio.run(scenario())


def test_a_socket_that_is_gone_is_left_alone() -> None:
    class Gone:
        def get_extra_info(self, _name: str) -> socket.socket:
            closed = socket.socket()
            closed.close()
            return closed

    keep_alive(Gone())  # type: ignore[arg-type]  # a transport as far as it matters here

"""A server that says what a test wants, and that otherwise grants one seat."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

ANSWER = b'{"held":1,"target":8,"limit":8,"members":["a"],"overdue":{},"in_grace":false}'


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


class FakeRedis:
    """`says` overrides the answer to a command; None is silence. `connections` counts the open."""

    def __init__(self) -> None:
        self.says: dict[bytes, bytes | None] = {}
        self.once: dict[bytes, bytes] = {}
        """As `says`, for the next such command."""
        self.asked: list[list[bytes]] = []
        self.connections = 0
        self.fewest = 0
        """Connections at any moment since a test set this."""
        self.opened = 0
        self.port = 0
        self.changed = asyncio.Condition()

    async def listen(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        self._server.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._count(1)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                command = await _read_command(reader)
                self.asked.append(command)
                answer = self.once.pop(command[0], None) or self.says.get(
                    command[0], _usual_answer(command)
                )
                if answer is not None:
                    writer.write(answer)
        writer.close()
        await self._count(-1)

    async def until_connections(self, count: int) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: self.connections == count)

    async def _count(self, change: int) -> None:
        async with self.changed:
            self.connections += change
            self.fewest = min(self.fewest, self.connections)
            self.opened += max(change, 0)
            self.changed.notify_all()


async def _read_command(reader: asyncio.StreamReader) -> list[bytes]:
    words = []
    for _ in range(int((await reader.readuntil(b"\r\n"))[1:])):
        length = int((await reader.readuntil(b"\r\n"))[1:])
        words.append((await reader.readexactly(length + 2))[:-2])
    return words


def _usual_answer(command: list[bytes]) -> bytes:
    match command[0]:
        case b"INFO":
            return bulk(b"# Server\r\nrun_id:abc123\r\n")
        case b"SCRIPT":
            return bulk(b"5ca1ab1e")
        case b"EVALSHA":
            return bulk(ANSWER)
        case _:
            return b"+OK\r\n"

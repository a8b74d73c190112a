"""A server that says what it is told to, for the tests of the clients."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping


def head_only(status: int, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole answer with an empty body."""
    lines = [f"HTTP/1.1 {status} X", "content-length: 0"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode()


@contextlib.asynccontextmanager
async def stub_server(
    pieces: Callable[[], Iterable[bytes]], pause_s: float = 0.0
) -> AsyncIterator[int]:
    """Yields its port. To each connection it writes these pieces, a pause before each, and ends it.

    No connection outlives the block.
    """
    handlers: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            handlers.add(task)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            for piece in pieces():
                await asyncio.sleep(pause_s)
                writer.write(piece)
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)

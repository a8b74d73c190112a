"""Between a client and a gateway: how often it asked, when, and what it was told."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Self

_REQUEST = re.compile(rb"(?:GET|POST) \S+ HTTP/1\.1\r\n")
_RETRY_AFTER = re.compile(rb"retry-after: (\d+)\r\n", re.IGNORECASE)
_RETRY_AFTER_MS = re.compile(rb"retry-after-ms: (\d+)\r\n", re.IGNORECASE)
_ANY_RETRY_AFTER = re.compile(rb"(?<=retry-after: )\d+|(?<=retry-after-ms: )\d+", re.IGNORECASE)
_SHOULD_RETRY = re.compile(rb"x-should-retry: (\w+)\r\n", re.IGNORECASE)


@dataclass(frozen=True)
class Told:
    """One answer. Loop time; `retry_after_s` as exact as it was told."""

    at_s: float
    status: int
    retry_after_s: float | None
    should_retry: str | None


@dataclass
class Tap:
    """Listens on `port`. Clients send one request after the other, so that the n-th answer is the
    n-th request's; requests and heads of answers come in one piece over loopback.

    A client that `hurries` is told to wait for no time at all: who comes back has come soon."""

    server_port: int
    hurries: bool = False
    port: int = 0
    asked_s: list[float] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def waited_s(self) -> list[float]:
        """From each answer to the request after it."""
        return [asked - told.at_s for told, asked in zip(self.told, self.asked_s[1:], strict=False)]

    async def open(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, on = await asyncio.open_connection("127.0.0.1", self.server_port)
        for source, sink, see in ((reader, on, self._see_request), (back, writer, self._see_told)):
            task = asyncio.create_task(self._pass_on(source, sink, see))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, see) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - one of the two below
        try:
            while data := await source.read(1 << 16):
                sink.write(see(data, asyncio.get_running_loop().time()))
                await sink.drain()
        except OSError:
            pass  # one end was reset, and the other learns that it is closed
        finally:
            sink.close()

    def _see_request(self, data: bytes, now_s: float) -> bytes:
        self.asked_s.extend(now_s for _ in _REQUEST.finditer(data))
        return data

    def _see_told(self, data: bytes, now_s: float) -> bytes:
        if not data.startswith(b"HTTP/1.1 "):
            return data
        head = data.partition(b"\r\n\r\n")[0] + b"\r\n"
        exact, whole = _RETRY_AFTER_MS.search(head), _RETRY_AFTER.search(head)
        told = int(exact[1]) / 1000 if exact else float(whole[1]) if whole else None
        should = _SHOULD_RETRY.search(head)
        status = int(data[9:12])
        self.told.append(Told(now_s, status, told, should[1].decode() if should else None))
        if not self.hurries:
            return data
        return _ANY_RETRY_AFTER.sub(lambda found: b"0" * len(found[0]), data)

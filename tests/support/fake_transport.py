"""A transport that a test plays: what was written is kept, and the kernel takes what it is let."""

from __future__ import annotations

import asyncio


class FakeTransport(asyncio.Transport):
    """`written`: every write, in order. With `takes_all` False nothing leaves the buffer until
    `take()`. `aborts`: calls of abort(). It never calls the protocol by itself but for flow
    control and, in the next loop turn, for the end."""

    def __init__(self, protocol: asyncio.Protocol, *, takes_all: bool = True) -> None:
        super().__init__({"socket": _FakeSocket()})
        self.protocol = protocol
        self.takes_all = takes_all
        self.written: list[bytes] = []
        self.unsent_bytes = 0
        self.aborts = 0
        self.is_reading = True
        self._is_closing = False
        self._high = 64 * 1024
        protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))
        if not self.takes_all:
            self.unsent_bytes += len(data)
            if self.unsent_bytes > self._high:
                self.protocol.pause_writing()

    def take(self, count: int) -> None:
        """The kernel takes some more of what is buffered."""
        self.unsent_bytes -= count
        if self.unsent_bytes == 0:
            self.protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert low in {None, 0}
        self._high = 64 * 1024 if high is None else high

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def is_closing(self) -> bool:
        return self._is_closing

    def abort(self) -> None:
        self.aborts += 1
        self.lose(None)

    def lose(self, error: Exception | None) -> None:
        """The connection ends, for whatever reason."""
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, error)


class _FakeSocket:
    def setsockopt(self, *_option: int) -> None:
        pass

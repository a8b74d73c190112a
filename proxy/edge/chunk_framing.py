"""What of a chunked request body is no data: sizes of chunks, their extensions, trailers.

Nobody here reads extensions and trailers, so that they cost nothing but the reading. They have a
bound all the same, in all and not from one byte of data to the next: a body of 16 MiB could
otherwise be a terabyte on the wire, within what its size and the patience with it allow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.edge.unreadable import UnreadableHeadError

if TYPE_CHECKING:
    import asyncio

MAX_FRAMING_BYTES: Final = 65_536
"""For one request, beyond what its chunks cannot do without."""
TOO_MUCH_FRAMING: Final = (
    f"Trailers and chunk extensions are larger than {MAX_FRAMING_BYTES} bytes."
)

_OF_A_CHUNK: Final = len("ffffffff\r\n\r\n")


class ChunkFraming:
    """Counts by what is left over, because the parser tells where data is and not where it is not.

    What is pipelined behind the body in one read counts with it: that read would have to be larger
    than the bound.
    """

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = 0

    def begin(self, read_bytes: int, head_bytes: int) -> None:
        """The head is over, in a read of which it took so much."""
        self._bytes = read_bytes - head_bytes

    def add_read(self, read_bytes: int) -> None:
        """So much has come, of which add_data() takes away what proves to be data."""
        self._bytes += read_bytes

    def add_data(self, data_bytes: int) -> None:
        """Data in one piece, which is a chunk or a part of one."""
        self._bytes -= data_bytes + _OF_A_CHUNK

    @property
    def is_too_much(self) -> bool:
        """To be asked when a read is over."""
        return self._bytes > MAX_FRAMING_BYTES

    def check(self) -> None:
        """When the body is over. Raises UnreadableHeadError: it has not been read to its end."""
        if self.is_too_much:
            raise UnreadableHeadError(431, TOO_MUCH_FRAMING)


def rest_for_a_turn(transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
    """After a read of a chunked body that nobody takes, so that nothing else bounds its speed. One
    of 250 KB may hold 40,000 chunks of a byte, which take 15 ms, and libuv reads up to 32 times
    before anybody else has his turn (2026-12)."""
    if not transport.is_closing():
        transport.pause_reading()
        loop.call_soon(_read_on, transport)


def _read_on(transport: asyncio.Transport) -> None:
    if not transport.is_closing():
        transport.resume_reading()

"""A file's bytes in big blocks, unpacked where it is gzipped."""

import zlib
from collections.abc import Iterator
from typing import BinaryIO

BLOCK_BYTES = 1 << 18
GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class Blocks:
    """Plain or gzip, told by the first bytes; a damaged or cut gzip gives what is readable.

    `file.tell()` between two blocks is how far the reading of the packed file has come. Once all
    are read, `cut` says whether the packed file broke off.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.cut = False
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        first = self._file.read(BLOCK_BYTES)
        if first.startswith(GZIP_MAGIC):
            yield from self._unpacked(first)
            return
        while first:
            yield first
            first = self._file.read(BLOCK_BYTES)

    def _unpacked(self, packed: bytes) -> Iterator[bytes]:
        member = zlib.decompressobj(_GZIP_WINDOW)
        while packed:
            try:
                block = member.decompress(packed, BLOCK_BYTES)
            except zlib.error:
                return
            if block:
                self.cut = True  # until the member's end
                yield block
            if member.eof:  # rotated logs are often several members one behind the other
                self.cut = False
                packed = member.unused_data.lstrip(b"\0")
                member = zlib.decompressobj(_GZIP_WINDOW)
            else:
                packed = member.unconsumed_tail
            packed = packed or self._file.read(BLOCK_BYTES)

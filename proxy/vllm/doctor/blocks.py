"""A file's bytes in big blocks, unpacked where it is gzipped."""

import zlib
from collections.abc import Iterator
from typing import BinaryIO

BLOCK_BYTES = 1 << 18
GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


def read_blocks(file: BinaryIO) -> Iterator[bytes]:
    """Plain or gzip, told by the first bytes; a damaged or cut gzip gives what is readable.

    `file.tell()` between two blocks is how far the reading of the packed file has come.
    """
    first = file.read(BLOCK_BYTES)
    if first.startswith(GZIP_MAGIC):
        yield from _unpacked(file, first)
        return
    while first:
        yield first
        first = file.read(BLOCK_BYTES)


def _unpacked(file: BinaryIO, packed: bytes) -> Iterator[bytes]:
    member = zlib.decompressobj(_GZIP_WINDOW)
    while packed:
        try:
            block = member.decompress(packed, BLOCK_BYTES)
        except zlib.error:
            return
        if block:
            yield block
        if member.eof:  # rotated logs are often several members one behind the other
            packed = member.unused_data.lstrip(b"\0")
            member = zlib.decompressobj(_GZIP_WINDOW)
        else:
            packed = member.unconsumed_tail
        packed = packed or file.read(BLOCK_BYTES)

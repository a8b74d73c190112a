"""Recognizes data that is one chunk from end to end, as an engine's event nearly always comes."""

from __future__ import annotations

from functools import lru_cache

_END = b"\r\n"
_MOST_DIGITS = 6
_NO_CHUNK = b""


def sole_chunk(data: bytes) -> bytes:
    """The bytes in the chunk, if `data` begins with one and ends with it; b"" otherwise.

    Only for a chunk that is written as all servers in use write it: its size in lower case, no
    zeros before it, no extension. What it then holds leaves no choice, so nothing is parsed: there
    is one head for each length of data. `data` must begin where a chunk may begin.
    """
    head = _head_of_chunk(len(data))
    if head and data.startswith(head) and data.endswith(_END):
        return data[len(head) : -2]
    return b""


@lru_cache(maxsize=1024)
def _head_of_chunk(length: int) -> bytes:
    """The first line of the chunk that takes so many bytes with its framing."""
    for digits in range(1, _MOST_DIGITS + 1):
        size = length - digits - 2 * len(_END)
        head = b"%x\r\n" % max(size, 0)
        if size > 0 and len(head) == digits + len(_END):
            return head
    return _NO_CHUNK

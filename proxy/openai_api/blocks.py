"""A request body that is too large to be in one piece.

Growing one buffer to 16 MiB copies it again and again, each time at once: single steps took 6 to
12 ms, with four such bodies growing side by side (2026-12). Blocks are never copied.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Blocks:
    """Bytes in several pieces, one after the other. A slice of them is copied out as bytes."""

    __slots__ = ("_size", "_starts", "blocks")

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self.blocks = [block for block in blocks if block]
        *self._starts, self._size = accumulate(map(len, self.blocks), initial=0)

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.blocks)

    def __getitem__(self, where: slice) -> bytes:
        return b"".join(self._parts(where))

    def between(self, start: int, stop: int) -> Blocks:
        """Some of them; only the blocks at both ends are copied."""
        return Blocks(self._parts(slice(start, stop)))

    def _parts(self, where: slice) -> list[bytes]:
        at, stop, step = where.indices(self._size)
        if step != 1:
            raise ValueError("blocks are read forwards, byte after byte")
        parts = []
        number = bisect_right(self._starts, at) - 1
        while at < stop:
            begin = at - self._starts[number]
            part = self.blocks[number][begin : begin + stop - at]
            parts.append(part)
            at += len(part)
            number += 1
        return parts

"""Bytes, cut anywhere, to runs of whole lines with their numbers."""

from collections.abc import Iterator
from dataclasses import dataclass, field

# A line may be longer than this (a prompt, a dump); it is then read in pieces.
LONGEST_CARRY = 4 << 20


@dataclass(slots=True)
class Lines:
    """Whole lines, one behind the other; `first` is the number of the first."""

    data: bytes
    first: int
    _counted_to: int = field(default=0)
    _counted: int = field(default=0)

    def number_at(self, offset: int) -> int:
        """The number of the line at `offset`; cheapest when asked in rising order."""
        if offset < self._counted_to:
            self._counted_to = self._counted = 0
        self._counted += self.data.count(b"\n", self._counted_to, offset)
        self._counted_to = offset
        return self.first + self._counted


class LineCutter:
    """Keeps the unfinished line until its end comes."""

    def __init__(self) -> None:
        self.bytes = 0
        self.lines = 0
        self._carry = b""

    def cut(self, block: bytes) -> Iterator[Lines]:
        self.bytes += len(block)
        end = block.rfind(b"\n") + 1
        if end:
            yield self._lines(b"".join((self._carry, memoryview(block)[:end])))
            self._carry = block[end:]
        else:
            self._carry += block
            if len(self._carry) > LONGEST_CARRY:
                yield from self.rest()

    def rest(self) -> Iterator[Lines]:
        """The unfinished last line."""
        if self._carry:
            yield self._lines(self._carry)
            self._carry = b""

    def _lines(self, data: bytes) -> Lines:
        first = self.lines + 1
        self.lines += data.count(b"\n")
        return Lines(data, first)

"""A word that is found by its rarest byte.

To look for one byte costs next to nothing a gigabyte, to look for a word a third of a second or
more. So where a byte of the word hardly occurs in logs, it is looked for, and then the word around
it. In a text that is full of that byte the word itself is looked for.
"""

from collections.abc import Iterator
from dataclasses import dataclass

# One hit in so many bytes, and the word itself is found sooner.
_TOO_MANY = 512


@dataclass(frozen=True, slots=True)
class Needle:
    """`rare` is the place of that byte in `word`."""

    word: bytes
    rare: int

    def is_in(self, data: bytes) -> bool:
        return next(self.places(data), None) is not None

    def places(self, data: bytes) -> Iterator[int]:
        """Where the word begins, in order."""
        byte, left = self.word[self.rare : self.rare + 1], len(data) // _TOO_MANY + 1
        at = data.find(byte)
        while at >= 0 and left:
            begin = at - self.rare
            if begin >= 0 and data.startswith(self.word, begin):
                yield begin
            else:
                left -= 1
            at = data.find(byte, at + 1)
        if at >= 0:
            yield from _by_word(data, self.word, max(at - self.rare, 0))


def _by_word(data: bytes, word: bytes, at: int) -> Iterator[int]:
    at = data.find(word, at)
    while at >= 0:
        yield at
        at = data.find(word, at + 1)

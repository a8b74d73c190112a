"""A tokenizer and a language that need no model.

A token is at most six bytes of UTF-8: a space, if there is one, and what follows it up to the next.
That is about what a byte-pair vocabulary makes of English, it takes any input, and a token's id is
its bytes, so that decoding needs no table. The engine answers in words of at most five letters, so
every word of an answer is one token, in an order that depends on the prompt alone.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

_TOKEN = re.compile(rb" ?[^ ]{1,5}| ")
_LINES = (
    "the river bends where light falls on quiet stone and birds call from tall grass while",
    "slow rain turns dust into earth green seed wakes under warm soil then grows into open sky",
    "day after day until its leaf can hold dew at dawn as old trees stand still near water",
)
_WORDS = tuple(" ".join(_LINES).split())
# Coprime to the number of words, so that every word comes up before the first comes again.
_STRIDE = 7


def tokenize(text: str) -> list[int]:
    """Token ids of a text."""
    return [_id_of(piece) for piece in _TOKEN.findall(text.encode("utf-8", "surrogatepass"))]


def count_tokens(text: str) -> int:
    return len(_TOKEN.findall(text.encode("utf-8", "surrogatepass")))


def detokenize(token_ids: list[int]) -> str:
    """The text of some ids; ids that no text has give a replacement character."""
    pieces = (_bytes_of(token_id) for token_id in token_ids)
    return b"".join(pieces).decode("utf-8", "replace")


def _id_of(piece: bytes) -> int:
    # The leading one keeps pieces apart that begin with zero bytes.
    return int.from_bytes(b"\x01" + piece, "big")


def _bytes_of(token_id: int) -> bytes:
    if token_id < 1:
        return "\N{REPLACEMENT CHARACTER}".encode()
    raw = token_id.to_bytes((token_id.bit_length() + 7) // 8, "big")
    return raw[1:] if raw[0] == 1 else "\N{REPLACEMENT CHARACTER}".encode()


@dataclass(frozen=True, slots=True)
class Answer:
    """What one sequence will say: token after token, the same for the same prompt and index.

    `natural_length`: tokens after which the model would end by itself.
    """

    start: int
    natural_length: int

    @classmethod
    def to_prompt(cls, prompt: bytes, index: int, mean_tokens: int) -> Answer:
        """`index`: which of the `n` answers. Lengths lie between half the mean and one and a half
        times it."""
        seed = zlib.crc32(prompt, index)
        spread = seed % (mean_tokens + 1)
        return cls(start=seed, natural_length=max(1, mean_tokens // 2 + spread))

    def token(self, position: int) -> str:
        """A word, with a space before it unless it is the first."""
        word = _WORDS[(self.start + position * _STRIDE) % len(_WORDS)]
        return " " + word if position else word

    def text(self, begin: int, end: int) -> str:
        """Tokens from `begin` up to, not including, `end`."""
        return "".join([self.token(position) for position in range(begin, end)])

    def stopped_by(self, stop: list[str], limit: int) -> Stop | None:
        """Where the first of some stop strings ends an answer of at most `limit` tokens."""
        text = self.text(0, limit)
        found = [(at, string) for string in stop if (at := text.find(string)) >= 0]
        if not found:
            return None
        at, string = min(found)
        return Stop(string, _tokens_covering(text, at + len(string)), text[:at])


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop string that comes up: after how many tokens, and the text before it."""

    string: str
    tokens: int
    text: str


def _tokens_covering(text: str, characters: int) -> int:
    """How many tokens it takes to say so many characters; a token begins at every space."""
    return 1 + text.count(" ", 1, characters)

"""Prompts of a given number of tokens, cheap to make: what they say does not matter.

A vocabulary of words is measured once (calibration.py). From it a long random text is laid out,
and a prompt is a slice of that text behind a few words of its own: the own words keep prompts from
sharing a prefix that an engine could cache, unless the trace says that they share one.

    words = (tokens - overhead) / tokens per word

overhead being what the chat template and the tokenizer add. Where a trace has blocks, a prompt is
the texts of its blocks one after the other, each the same wherever its id occurs; the last one is
cut so that the length comes out.
"""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.replay.arrival import Arrival

_TEXT_WORDS = 1 << 15
# So many prompts are told apart by their own words, whatever the size of the vocabulary.
_OWN_TEXTS = 1 << 32
_GOLDEN = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words that take `tokens_per_word` tokens each behind a blank, in a request that takes
    `overhead` more. Words are lower-case ASCII letters, at least two of them."""

    words: tuple[str, ...]
    tokens_per_word: float = 1.0
    overhead: float = 0.0

    def words_for(self, tokens: float) -> int:
        return max(1, round((tokens - self.overhead) / self.tokens_per_word))


class PromptWriter:
    """`salt` makes other words of the same loads: a second run does not find the first one's
    prompts in the engine's prefix cache. `longest` is that of the longest prompt, in tokens."""

    def __init__(self, vocabulary: Vocabulary, salt: int, longest: int, block_tokens: int) -> None:
        self._vocabulary = vocabulary
        self._block_words = round(block_tokens / vocabulary.tokens_per_word)
        self._salt = salt
        rng = random.Random(salt)
        words = rng.choices(vocabulary.words, k=_TEXT_WORDS + vocabulary.words_for(longest) + 1)
        self._text = " ".join(words)
        # A word's beginning, each behind the blank after the word before it.
        self._begins = array("L", accumulate((len(word) + 1 for word in words), initial=0))
        self._own_words = _digits_for(_OWN_TEXTS, len(vocabulary.words))

    def text_for(self, arrival: Arrival, number: int) -> str:
        """`number` tells one prompt of the schedule from the others."""
        words = self._vocabulary.words_for(arrival.prompt_tokens)
        if not arrival.blocks or not self._block_words:
            return self._piece(number * 2 + 1, words)
        return " ".join(self._pieces(arrival.blocks, number, words))

    def _pieces(self, blocks: tuple[int, ...], number: int, words: int) -> Iterator[str]:
        for block in blocks:
            if words <= 0:
                return
            yield self._piece(block * 2, min(words, self._block_words))
            words -= self._block_words
        if words > 0:
            yield self._piece(number * 2 + 1, words)

    def _piece(self, identity: int, words: int) -> str:
        """The text that one identity has, or its beginning."""
        scattered = ((identity + self._salt) * _GOLDEN) & 0xFFFFFFFFFFFFFFFF
        own = min(self._own_words, words)
        begin = (scattered >> 40) % _TEXT_WORDS
        end = begin + words - own
        rest = self._text[self._begins[begin] : self._begins[end] - 1] if end > begin else ""
        named = " ".join(self._own(scattered >> 16, own))
        return f"{named} {rest}" if rest else named

    def _own(self, identity: int, count: int) -> Iterator[str]:
        words = self._vocabulary.words
        for _ in range(count):
            identity, digit = divmod(identity, len(words))
            yield words[digit]


def _digits_for(numbers: int, base: int) -> int:
    digits, reach = 1, base
    while reach < numbers:
        digits, reach = digits + 1, reach * max(base, 2)
    return digits

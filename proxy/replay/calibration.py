"""Measures how many tokens words take in an engine's eyes, so that prompts are as long as asked.

Word by word where the engine counts text for us (/tokenize): those that take the fewest tokens,
and all as many, are kept, and a text of them is counted to see what lies around it. Where it only
counts what it answers (usage), two texts of different length give the line.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.replay.arrival import Arrival
from proxy.replay.prompts import PromptWriter, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

Count = Callable[[str], Awaitable[int]]
"""Tokens of a whole request with this prompt."""

_COMMON_WORDS = (
    "the and to of in is was for on that with as at by from his her they are not but one all we "
    "can had were said there which when out up time then some like into him has more see two "
    "way could than first been call who its now find long down day did get come made may part "
    "over new take only little work know place year live back give most very after thing our "
    "name good man think say great where help line much mean old any same tell boy follow came"
)
WORDS = tuple(_COMMON_WORDS.split())
_FEWEST_WORDS = 8
_REPEATS = 8
_SAMPLE_WORDS = 400
_CHECKED_LENGTHS = (60, 250, 1000)


@dataclass(frozen=True, slots=True)
class Calibration:
    """`worst_error`: of the lengths that were tried, as a share; None when none could be."""

    vocabulary: Vocabulary
    how: str
    worst_error: float | None = None


def assumed() -> Calibration:
    """For an engine that counts nothing for us: such words are one token in most vocabularies."""
    return Calibration(Vocabulary(WORDS), "assumed: one token a word")


async def calibrate_by_words(count: Count) -> Calibration:
    """Some hundred short counts."""
    anchor = await count(WORDS[0])
    counts = await asyncio.gather(*(count(WORDS[0] + f" {word}" * _REPEATS) for word in WORDS))
    costs = [(counted - anchor) / _REPEATS for counted in counts]
    words, cost = _cheapest(costs)
    sample = random.Random(1).choices(words, k=_SAMPLE_WORDS)
    overhead = await count(" ".join(sample)) - _SAMPLE_WORDS * cost
    vocabulary = Vocabulary(words, cost, overhead)
    return Calibration(vocabulary, "measured by /tokenize", await _worst_error(vocabulary, count))


async def calibrate_by_line(count: Count) -> Calibration:
    """Two counts, for which the engine has to answer."""
    rng = random.Random(1)
    short, long = (" ".join(rng.choices(WORDS, k=k)) for k in (_SAMPLE_WORDS // 8, _SAMPLE_WORDS))
    low, high = await count(short), await count(long)
    cost = max((high - low) / (_SAMPLE_WORDS - _SAMPLE_WORDS // 8), 0.1)
    overhead = high - _SAMPLE_WORDS * cost
    return Calibration(Vocabulary(WORDS, cost, overhead), "measured by usage of two requests")


def _cheapest(costs: Sequence[float]) -> tuple[tuple[str, ...], float]:
    """The words of the lowest cost that enough words have; else all of them at their mean."""
    groups: defaultdict[float, list[str]] = defaultdict(list)
    for word, cost in zip(WORDS, costs, strict=True):
        groups[cost].append(word)
    for cost in sorted(groups):
        if cost >= 1 and len(groups[cost]) >= _FEWEST_WORDS:
            return tuple(groups[cost]), cost
    return WORDS, max(sum(costs) / len(costs), 0.1)


async def _worst_error(vocabulary: Vocabulary, count: Count) -> float:
    writer = PromptWriter(vocabulary, salt=1, longest=max(_CHECKED_LENGTHS), block_tokens=0)
    asked = [Arrival(0.0, tokens, 1) for tokens in _CHECKED_LENGTHS]
    counted = [await count(writer.text_for(each, n)) for n, each in enumerate(asked)]
    errors = (
        abs(got - each.prompt_tokens) / each.prompt_tokens
        for got, each in zip(counted, asked, strict=True)
    )
    return max(errors)

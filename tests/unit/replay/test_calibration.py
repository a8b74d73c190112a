"""Lengths are right for whatever a tokenizer makes of words."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.replay.arrival import Arrival
from proxy.replay.calibration import WORDS, assumed, calibrate_by_line, calibrate_by_words
from proxy.replay.prompts import PromptWriter

if TYPE_CHECKING:
    from proxy.replay.calibration import Calibration, Count


def _tokenizer(longest_word: int, around: int) -> Count:
    """Words of up to so many letters are one token, longer ones two."""

    async def count(prompt: str) -> int:
        return around + sum(1 if len(word) <= longest_word else 2 for word in prompt.split())

    return count


def _error(calibration: Calibration, count: Count) -> int:
    writer = PromptWriter(calibration.vocabulary, 5, 500, 0)
    return asyncio.run(_counted(count, writer.text_for(Arrival(0, 500, 1), 0))) - 500


async def _counted(count: Count, text: str) -> int:
    return await count(text)


@pytest.mark.parametrize(("longest", "around"), [(9, 0), (9, 30), (3, 12), (1, 4)])
def test_word_by_word_the_length_is_exact(longest: int, around: int) -> None:
    count = _tokenizer(longest, around)
    calibration = asyncio.run(calibrate_by_words(count))
    assert abs(_error(calibration, count)) <= (longest == 1)
    assert calibration.worst_error is not None
    assert calibration.worst_error < 0.02


def test_two_counts_give_a_length_that_is_near() -> None:
    count = _tokenizer(3, 12)
    assert abs(_error(asyncio.run(calibrate_by_line(count)), count)) < 25


def test_without_a_count_a_word_is_a_token() -> None:
    assert assumed().vocabulary.words == WORDS
    assert assumed().worst_error is None

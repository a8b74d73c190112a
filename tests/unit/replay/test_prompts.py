"""Prompts have the asked number of words, share what they should share, and nothing else."""

from __future__ import annotations

from itertools import takewhile

import pytest

from proxy.replay.arrival import Arrival
from proxy.replay.prompts import PromptWriter, Vocabulary

WORDS = ("the", "and", "to", "of", "in", "is", "was", "for", "on", "that")


def _writer(salt: int = 1, block: int = 0, **changes: float) -> PromptWriter:
    return PromptWriter(Vocabulary(WORDS, **changes), salt, 3000, block)


@pytest.mark.parametrize("tokens", [1, 2, 9, 10, 11, 500, 3000])
def test_a_prompt_has_as_many_words_as_it_takes(tokens: int) -> None:
    text = _writer().text_for(Arrival(0, tokens, 1), 7)
    assert len(text.split(" ")) == tokens
    assert set(text.split(" ")) <= set(WORDS)


def test_what_the_template_adds_is_taken_off_and_long_words_count_more() -> None:
    text = _writer(tokens_per_word=2.0, overhead=20.0).text_for(Arrival(0, 120, 1), 0)
    assert len(text.split()) == 50


def test_prompts_differ_from_their_first_words_on_and_so_do_runs_with_another_salt() -> None:
    writers = [_writer(salt) for salt in (1, 2)]
    texts = [each.text_for(Arrival(0, 200, 1), n) for each in writers for n in range(500)]
    assert len({text[:40] for text in texts}) == 1000
    assert _writer().text_for(Arrival(0, 200, 1), 3) == texts[3]


def test_equal_blocks_are_equal_text_and_the_last_one_is_cut() -> None:
    writer = _writer(block=100)
    a = writer.text_for(Arrival(0, 250, 1, (1, 2, 3)), 0)
    b = writer.text_for(Arrival(0, 230, 1, (1, 2, 4)), 1)
    pairs = zip(a.split(), b.split(), strict=False)
    shared = list(takewhile(lambda pair: pair[0] == pair[1], pairs))
    assert (len(a.split()), len(b.split())) == (250, 230)
    assert 200 <= len(shared) < 215


def test_a_prompt_longer_than_its_blocks_goes_on_with_words_of_its_own() -> None:
    assert len(_writer(block=100).text_for(Arrival(0, 250, 1, (1,)), 0).split()) == 250

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.simulator.text import Answer, count_tokens, detokenize, tokenize


@given(st.text())
def test_text_survives_its_tokens(text: str) -> None:
    tokens = tokenize(text)
    assert detokenize(tokens) == text
    assert count_tokens(text) == len(tokens)


@given(st.text())
def test_ids_fit_a_double(text: str) -> None:
    assert all(0 < token < 2**53 for token in tokenize(text))


@pytest.mark.parametrize("token", [0, -1, 70, 2**60])
def test_an_id_that_no_text_has_decodes_all_the_same(token: int) -> None:
    assert detokenize([token]) == "\N{REPLACEMENT CHARACTER}"


def test_a_lone_surrogate_is_counted() -> None:
    assert count_tokens("\ud800") == 1


def test_each_word_of_an_answer_is_one_token() -> None:
    text = Answer.to_prompt(b"hello", 0, 256).text(0, 100)
    assert len(text.split()) == 100
    assert count_tokens(text) == 100


def test_an_answer_depends_on_the_prompt_and_its_index_alone() -> None:
    answer = Answer.to_prompt(b"hello", 0, 256)
    assert answer == Answer.to_prompt(b"hello", 0, 256)
    assert answer != Answer.to_prompt(b"hello", 1, 256)
    assert answer != Answer.to_prompt(b"hallo", 0, 256)


def test_pieces_of_an_answer_join_to_the_whole() -> None:
    answer = Answer.to_prompt(b"hello", 0, 256)
    assert answer.text(0, 3) + answer.text(3, 9) == answer.text(0, 9)


@given(st.binary(), st.integers(1, 1000))
def test_natural_lengths_lie_around_the_mean(prompt: bytes, mean: int) -> None:
    length = Answer.to_prompt(prompt, 0, mean).natural_length
    assert max(1, mean // 2) <= length <= mean // 2 + mean


def test_a_stop_string_ends_an_answer_before_itself() -> None:
    answer = Answer.to_prompt(b"hello", 0, 256)
    words = answer.text(0, 10).split()
    stop = answer.stopped_by([words[4], words[7]], limit=10)
    assert stop is not None
    assert stop.string == words[4]
    assert stop.tokens == 5
    assert stop.text == " ".join(words[:4]) + " "


def test_a_stop_string_over_two_tokens_needs_both() -> None:
    answer = Answer.to_prompt(b"hello", 0, 256)
    words = answer.text(0, 3).split()
    stop = answer.stopped_by([f"{words[0]} {words[1]}"], limit=10)
    assert stop is not None
    assert (stop.tokens, stop.text) == (2, "")


def test_a_stop_string_beyond_the_limit_does_not_count() -> None:
    answer = Answer.to_prompt(b"hello", 0, 256)
    fifth = answer.text(0, 5).split()[4]
    assert answer.stopped_by([fifth], limit=4) is None

"""Sequences in raw JSON, and small values read as pydantic's lax mode reads them."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from proxy.openai_api.counting import (
    count_entries,
    count_items,
    count_prompts,
    integer,
    is_given,
    is_true,
    text,
)

MESSAGE = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}


def raw(value: object) -> Raw:
    return Raw(json.dumps(value).encode())


@pytest.mark.parametrize("absent", [Raw(), Raw(b"null")])
def test_absent_and_null_are_no_sequences(absent: Raw) -> None:
    assert not is_given(absent)
    assert count_prompts(absent) == count_items(absent) == count_entries(absent) == 0


@pytest.mark.parametrize(
    ("value", "sequences"),
    [
        ("a", 1),
        ("", 1),
        (["a"], 1),
        (["a", "b", "c"], 3),
        ([1, 2, 3], 1),
        ([-1], 1),
        ([4.0, 5.0], 1),
        ([True], 1),
        ([[1, 2], [3]], 2),
        ([[]], 1),
        ([MESSAGE, MESSAGE], 1),
        ([[MESSAGE], [MESSAGE, MESSAGE]], 2),
        ([], 1),
        ({}, 1),
        (5, 1),
    ],
)
def test_prompts_are_texts_token_lists_or_conversations(value: object, sequences: int) -> None:
    assert count_prompts(raw(value)) == sequences


def test_blanks_before_the_first_item_do_not_hide_it() -> None:
    assert count_prompts(Raw(b'[ \n\t\r "a" , "b" ]')) == 2
    assert count_prompts(Raw(b"[ \n 1 , 2 ]")) == 1


@pytest.mark.parametrize(
    ("value", "inputs"),
    [
        ("a", 1),
        ({"content": [1, 2]}, 1),
        (["a", {"content": []}], 2),
        ([1, 2], 2),
        ([1, "a, b"], 2),
        ([1, [2, 3]], 2),
        ([1, {"a": 2, "b": 3}], 2),
        ([], 0),
    ],
)
def test_items_of_a_list_are_inputs(value: object, inputs: int) -> None:
    assert count_items(raw(value)) == inputs


def test_entries_of_an_object_count_once_for_each_key() -> None:
    assert count_entries(raw({"a": 1, "b": {"c": 2}})) == 2
    assert count_entries(Raw(b'{"a": 1, "a": 2}')) == 1
    assert count_entries(raw([1, 2])) == 1


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (4, 4),
        (-1, -1),
        ("4", 4),
        (" 4 ", 4),
        ("+4", 4),
        ("4.0", 4),
        ("1_000", 1000),
        (4.0, 4),
        (1e9, 1_000_000_000),
        (True, 1),
        (2**70, 2**70),
        (4.5, None),
        ("4.5", None),
        ("four", None),
        ("inf", None),
        ("nan", None),
        ("", None),
        (None, None),
        ([4], None),
        ({"n": 4}, None),
    ],
)
def test_integers_are_read_as_the_engine_reads_them(value: object, read: int | None) -> None:
    assert integer(raw(value)) == read


def test_leading_zeros_do_not_hide_an_integer() -> None:
    assert integer(Raw(b'"' + b"0" * 4000 + b'7"')) == 7


@pytest.mark.parametrize("digits", [b"9" * 5000, b"1e999", b'"' + b"9" * 5000 + b'"', b"-"])
def test_numbers_that_nobody_reads_are_none(digits: bytes) -> None:
    assert integer(Raw(digits)) is None


@pytest.mark.parametrize("value", [True, 1, 1.0, "true", "True", "1", "on", "y", "yes", "t"])
def test_true_has_many_spellings(value: object) -> None:
    assert is_true(raw(value))


@pytest.mark.parametrize("value", [False, 0, 2, None, "false", "no", "", [True], {}])
def test_the_rest_is_not_true(value: object) -> None:
    assert not is_true(raw(value))


def test_a_text_is_a_short_string() -> None:
    assert text(raw("tiny é")) == "tiny é"
    assert text(raw("x" * 10_000)) is None
    assert text(Raw(b'"\xff"')) is None
    assert text(raw(5)) is None
    assert text(Raw()) is None


def test_of_very_many_items_none_is_made_and_never_fewer_are_counted() -> None:
    """60 MiB of `true,1,1,...` held the event loop for 1.5 s and took 1.9 GiB."""
    many = b"[true" + b",1" * 300_000 + b"]"
    assert count_items(Raw(many)) == 300_001
    texts = b"[" + b'"a, b",' * 200_000 + b'"c"]'
    assert count_items(Raw(texts)) == 400_001, "each comma, as if it were between two"
    few = b"[" + b'"a, b",' * 1000 + b'"c"]'
    assert count_items(Raw(few)) == 1001

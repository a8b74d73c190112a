from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from proxy.openai_api import token_ids as module
from proxy.openai_api.blocks import Blocks
from proxy.openai_api.steps import all_at_once
from proxy.openai_api.token_ids import TokenIds, token_ids, token_ids_in_steps

MESSAGE = {"role": "user", "content": "a"}


def said(value: object, indent: int | None = None) -> bytes:
    return json.dumps(value, indent=indent).encode()


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        ([1, 2, 3], (3, 3)),
        ([7], (1, 1)),
        ([], (0, 0)),
        ([[]], (0, 0)),
        ([[], []], (0, 0)),
        ([[1], []], (1, 1)),
        ([[1, 2], [3], []], (3, 2)),
        ([[], [1, 2, 3], [4, 5]], (5, 3)),
        ([[1], [2, 3, 4, 5]], (5, 4)),
        ([-1, 2], (2, 2)),
        ("1, 2", None),
        (["1", "2"], None),
        ([1, "a, b"], None),
        ([[1], "a"], None),
        ([[1], 2], None),
        ([[1], 2, [3]], None),
        ([1, [2], [3]], None),
        ([[1], ["a"]], None),
        ([[1], [[2]]], None),
        ([[[1], [2]]], None),
        ([[1, [2], [3]]], None),
        ([1, [2]], None),
        ([1, {"a": 2}], None),
        ([MESSAGE], None),
        ([[MESSAGE]], None),
        ([None], None),
        ({}, None),
        (5, None),
        (None, None),
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("window", [1, 2, 3, 1000])
def test_token_ids_are_counted_where_there_is_nothing_else(
    value: object,
    ids: tuple[int, int] | None,
    indent: int | None,
    window: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_WINDOW", window)
    assert token_ids(Raw(said(value, indent))) == ids


def test_an_absent_prompt_has_no_token_ids() -> None:
    assert token_ids(Raw()) is None


PROMPTS = st.lists(
    st.lists(st.integers(0, 200_000), max_size=20) | st.just([7] * 9000), min_size=1, max_size=9
)


@given(PROMPTS, st.sampled_from([None, 1]))
def test_as_many_are_counted_as_json_reads(prompts: list[list[int]], indent: int | None) -> None:
    lengths = list(map(len, prompts))
    expected = TokenIds(sum(lengths), max(lengths))
    body = said(prompts, indent)
    assert token_ids(Raw(body)) == expected
    assert all_at_once(token_ids_in_steps(Blocks([body[:999], body[999:]]))) == expected
    assert token_ids(Raw(said(prompts[0], indent))) == TokenIds(lengths[0], lengths[0])


class CountedLists(bytes):
    """Tells how often it is sliced."""

    slices = 0

    def __getitem__(self, where: slice, /) -> bytes:  # type: ignore[override]
        self.slices += 1
        return super().__getitem__(where)


def test_many_short_lists_take_no_more_steps_than_one_long_one() -> None:
    """87,000 of them in a small body once held the event loop for a tenth of a second."""
    many = CountedLists(b"[[]" + b",[]" * 87_000 + b"]")
    assert all_at_once(token_ids_in_steps(many)) == (0, 0)
    assert many.slices < 30

from __future__ import annotations

import json

import msgspec
import pytest

from proxy.openai_api.listed import Listed, Strings, items_in

ITEMS = ['a text, with \\ and "quotes", [1], {2}'] * 300


def found(window: bytes, before: bytes = b"") -> Listed | None:
    strings = Strings()
    strings.go_on(before)
    strings.go_on(window)
    return items_in(window, strings)


def between(window: bytes, listed: Listed | None) -> list[object]:
    assert listed is not None
    items: list[object] = json.loads(b"[" + window[listed.start : listed.stop] + b"]")
    return items


@pytest.mark.parametrize(
    "items",
    [ITEMS, [1.5, -2] * 3000, [[1, 2], [3]] * 900, [{"a": [1], "b": "2"}] * 500, [[], None] * 900],
)
def test_nearly_all_of_a_long_list_is_found(items: list[object]) -> None:
    window = json.dumps(items).encode()
    listed = found(window)
    assert len(items) - 4 <= len(between(window, listed)) <= len(items) - 2
    assert listed is not None
    assert listed.items == len(between(window, listed))
    assert window[listed.start - 1 : listed.start] == window[listed.stop : listed.stop + 1] == b","


@pytest.mark.parametrize("cut", range(1, 60))
def test_wherever_a_window_begins_strings_are_told_from_what_is_between(cut: int) -> None:
    body = json.dumps(ITEMS).encode()
    window = body[cut:]
    items = between(window, found(window, body[:cut]))
    assert items == ITEMS[: len(items)]


@pytest.mark.parametrize(
    "window",
    [
        b"",
        b"1,2,3",
        b"[" + b" " * 9000 + b"]",
        b"," + b" " * 9000 + b",",
        b'"' + b"1," * 9000 + b'"',
        b"{" + b'"a":1,' * 2000,
        b"[" + b"1,,2," * 2000 + b"]",
        b"[" + b"1,NaN," * 2000 + b"]",
    ],
)
def test_what_is_no_long_list_is_none(window: bytes) -> None:
    assert found(window) is None


def test_what_is_nested_too_deeply_to_be_read_is_not_taken_for_items() -> None:
    window = b"[1," + b"[" * 9000 + b"]" * 9000 + b",2]"
    try:
        msgspec.json.decode(window)
    except RecursionError:
        assert found(window) is None
    else:  # the decoder of 3.13 and later reads so deep
        assert found(window) == Listed(3, 3 + 18_000, 1)

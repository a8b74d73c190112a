"""Counts prompts that are given as token ids: in windows, and without an object for any of them.

A list of a hundred thousand short lists is a body of 256 KiB, and going from one to the next in
Python took a tenth of a second. What tells is commas: a list has one less than it has ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from proxy.openai_api.counting import first_item
from proxy.openai_api.steps import all_at_once

if TYPE_CHECKING:
    from msgspec import Raw

    from proxy.openai_api.inline_media import Sliceable
    from proxy.openai_api.steps import Steps

_WINDOW = 16 * 1024
_FIRST_ITEM_WITHIN = 1024
_BLANKS = b" \t\r\n"
_BESIDE_LISTS = bytes(set(range(256)) - set(b"[],"))


class TokenIds(NamedTuple):
    """How many there are in all prompts together, and in the longest."""

    total: int
    longest: int


def token_ids(raw: Raw) -> TokenIds | None:
    """None unless all prompts are lists of token ids."""
    if first_item(raw) not in _FIRST_OF_IDS:
        return None
    with memoryview(raw) as prompt:
        return all_at_once(token_ids_in_steps(prompt))


def token_ids_in_steps(prompt: Sliceable) -> Steps[TokenIds | None]:
    """As token_ids."""
    if first_item(prompt[:_FIRST_ITEM_WITHIN]) not in _FIRST_OF_IDS:
        return None
    lists = _Lists()
    for start in range(0, len(prompt), _WINDOW):
        yield
        window = bytes(prompt[start : start + _WINDOW])
        if b'"' in window or b"{" in window:
            return None
        lists.add(window)
    return lists.token_ids()


_FIRST_OF_IDS = frozenset(bytes((byte,)) for byte in b"[]-0123456789")


class _Lists:
    """What the windows of a list, or of a list of lists, add up to."""

    __slots__ = (
        "_adjacent", "_begin", "_commas", "_empty", "_end", "_last", "_longest", "_opened",
        "_unclosed",
    )  # fmt: skip

    def __init__(self) -> None:
        self._commas = self._opened = self._empty = 0
        self._adjacent = 0
        """Lists that follow another."""
        self._longest = self._unclosed = 0
        """Commas, and the two bytes before them that each list in a list has."""
        self._begin = self._end = self._last = b""

    def add(self, window: bytes) -> None:
        if b"[" in window or b"]" in window:
            self._add_lists(window)
        else:
            self._add_numbers(window)

    def _add_numbers(self, window: bytes) -> None:
        commas = window.count(b",")
        self._commas += commas
        self._unclosed += commas
        shape = b"," * min(commas, 2)
        self._begin = (self._begin + shape)[:2]
        self._end = (self._end + shape)[-2:]
        self._last = window.rstrip(_BLANKS)[-1:] or self._last

    def _add_lists(self, window: bytes) -> None:
        dense = self._last + window.translate(None, _BLANKS)
        self._empty += dense.count(b"[]")
        self._last = dense[-1:]
        shape = window.translate(None, _BESIDE_LISTS)
        self._commas += shape.count(b",")
        self._opened += shape.count(b"[")
        self._begin = (self._begin + shape[:2])[:2]
        self._adjacent += (self._end + shape).count(b"],[")
        self._end = (self._end + shape[-2:])[-2:]
        self._close(shape)

    def _close(self, shape: bytes) -> None:
        *closed, rest = shape.split(b"]")
        if closed:
            lengths = [*map(len, closed)]
            lengths[0] += self._unclosed
            self._longest = max(self._longest, *lengths)
            self._unclosed = 0
        self._unclosed += len(rest)

    def token_ids(self) -> TokenIds | None:
        total = self._commas + 1 - self._empty
        if self._opened == 1:
            return TokenIds(total, total)
        is_flat = self._opened == self._adjacent + 2
        if not is_flat or (self._begin, self._end) != (b"[[", b"]]"):
            return None  # lists in lists in lists, or something else beside a list
        return TokenIds(total, self._longest - 1 if self._longest > 2 else min(total, 1))

"""Many items of a list, in a window of a large JSON body.

Where strings begin and end is known of a window only if it is known of all windows before. Which
brackets are open need not be: what stands between two commas is nothing but whole items of one list
if a list of it can be decoded.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Raw

_decode = msgspec.json.Decoder(Raw).decode
_items = msgspec.json.Decoder(list[Raw]).decode

_LEAST_BYTES = 4096
# Between numbers or strings, between lists, between objects.
_BOUNDARIES = (b",", b"],", b"},")
_QUOTES_PASSED = 24
"""In the search for a boundary, from either end."""


class Listed(NamedTuple):
    """So many items stand between two places of a window, with a comma before and after them."""

    start: int
    stop: int
    items: int


class Strings:
    """Where strings begin and end, from window to window."""

    __slots__ = ("_is_escaped", "_is_inside", "_was_inside", "_window")

    def __init__(self) -> None:
        self._is_inside = self._was_inside = self._is_escaped = False
        self._window = b""
        """The last, without backslashes that could hide a quote."""

    @property
    def is_inside(self) -> bool:
        """Of a string, where the next window begins, if what went before is JSON."""
        return self._is_inside

    def go_on(self, window: bytes) -> None:
        if self._is_escaped:
            window = b"_" + window[1:]
        if b"\\" in window:
            window = window.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        self._is_escaped = window.endswith(b"\\")
        self._window = window
        self._was_inside = self._is_inside
        self._is_inside ^= window.count(b'"') % 2 == 1

    def first(self, boundary: bytes) -> int:
        """Where the comma of the window's first boundary outside of strings is, or -1."""
        at, is_inside = 0, self._was_inside
        for _ in range(_QUOTES_PASSED):
            quote = self._window.find(b'"', at)
            if not is_inside:
                found = self._window.find(boundary, at, quote if quote >= 0 else None)
                if found >= 0:
                    return found + len(boundary) - 1
            if quote < 0:
                break
            at, is_inside = quote + 1, not is_inside
        return -1

    def last(self, boundary: bytes) -> int:
        end, is_inside = len(self._window), self._is_inside
        for _ in range(_QUOTES_PASSED):
            quote = self._window.rfind(b'"', 0, end)
            if not is_inside:
                found = self._window.rfind(boundary, quote + 1, end)
                if found >= 0:
                    return found + len(boundary) - 1
            if quote < 0:
                break
            end, is_inside = quote, not is_inside
        return -1


def items_in(window: bytes, strings: Strings) -> Listed | None:
    """Most of a window, if that is items of one list. `strings` have come to its end."""
    for boundary in _BOUNDARIES:
        start, stop = strings.first(boundary) + 1, strings.last(boundary)
        if start > 0 and stop - start >= _LEAST_BYTES:
            count = _count(window[start:stop])
            if count > 0:
                return Listed(start, stop, count)
    return None


def _count(piece: bytes) -> int:
    """0 when it is not whole items of a list."""
    listed = b"[%b]" % piece
    try:
        if b'"' in piece or b"[" in piece or b"{" in piece:
            return len(_items(listed))
        _decode(listed)
    except (msgspec.DecodeError, RecursionError):
        return 0
    return piece.count(b",") + 1 if piece.strip() else 0

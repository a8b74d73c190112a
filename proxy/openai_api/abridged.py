"""A large JSON body without the insides of its long strings and long lists.

What makes a body large is nearly always the inside of a few strings: pictures and sounds as base64,
long texts. Decoding 16 MiB in one go takes 5 ms, and nothing else runs meanwhile, in whatever
thread it is done. So a window of the body that can only be part of a string is left out and a mark
put in its place, before what remains is decoded. What is left of a window that holds many items of
a list are those at its ends (proxy/openai_api/listed.py), and a string that tells how many were
left out.

A window can only be part of a string if it is the inside of one: that the decoder says itself, so
that whatever it would refuse is not left out. Inside a string a mark is as good as what it stands
for; anywhere else it is no JSON, the decoding fails, and the body must be read as a whole. Where a
cut is made no backslash is near, so that no escape is cut in two.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Raw

from proxy.openai_api.counting import left_out
from proxy.openai_api.listed import Strings, items_in
from proxy.openai_api.request_fields import RequestFields, UnreadableBodyError, read_strict_fields

if TYPE_CHECKING:
    from proxy.openai_api.blocks import Blocks
    from proxy.openai_api.steps import Steps

MOST_AT_ONCE_BYTES = 1024 * 1024
"""Of JSON that is read in one step."""

WINDOW_BYTES = 16 * 1024
_WINDOWS_A_STEP = 8  # of which each takes 7 us (2026-12)

# The longest escape, of a character in two halves, is \uD83D\uDE00.
_CLEAR_OF_ESCAPES = 12
_SEARCHED_FOR_A_CUT = 1024
_LEAST_LEFT_OUT = 4096
_SAMPLE_BYTES = 64
_IN_NUMBERS = b"0123456789+-.eE,[] \t\r\n"

# Not in any UTF-8: a string with a mark in it has no value, as one that is too long for a value
# has none.
_END = b"\xff"

_decode = msgspec.json.Decoder(Raw).decode


class Cut(NamedTuple):
    """Where the bytes that were left out stand in the body."""

    start: int
    stop: int


class Abridged:
    """`text` is what is left of `body`, with the mark of each of the `cuts`."""

    __slots__ = ("_body", "_cuts", "_mark", "text")

    def __init__(self, body: Blocks, text: bytes, mark: bytes, cuts: list[Cut]) -> None:
        self._body = body
        self.text = text
        self._mark = mark
        self._cuts = cuts

    def is_cut(self, raw: Raw) -> bool:
        """Whether something is missing in a value that was found in the text."""
        return self._mark in bytes(raw)

    def in_full(self, raw: Raw) -> Blocks | bytes:
        """What a value that was found in the text is in the body."""
        value = bytes(raw)
        first, last = value.find(self._mark), value.rfind(self._mark)
        if first < 0:
            return value
        cut, _ = self._cut_at(value, first)
        last_cut, end_of_mark = self._cut_at(value, last)
        return self._body.between(cut.start - first, last_cut.stop + len(value) - end_of_mark)

    def _cut_at(self, value: bytes, at: int) -> tuple[Cut, int]:
        """The cut whose mark stands there, and where its mark ends."""
        at += len(self._mark)
        end = value.index(_END, at)
        return self._cuts[int(value[at:end])], end + len(_END)


def abridged_fields(body: Blocks) -> Steps[tuple[Abridged, RequestFields] | None]:
    """The fields of a large body, in which something may be cut. None when reading them would take
    one long step after all: nearly all of it is something else than long strings, or it is not
    JSON."""
    abridged = yield from abridge(body, MOST_AT_ONCE_BYTES)
    if abridged is None:
        return None
    try:
        return abridged, read_strict_fields(abridged.text)
    except UnreadableBodyError:
        return None


def abridge(body: Blocks, most: int) -> Steps[Abridged | None]:
    """None when more than `most` bytes of it are left."""
    mark = b"\xff%b:" % secrets.token_hex(8).encode()  # which nobody can have put into his body
    kept: list[bytes] = []
    cuts: list[Cut] = []
    strings = Strings()
    whole = 0
    for number, start in enumerate(range(0, len(body), WINDOW_BYTES)):
        if number % _WINDOWS_A_STEP == 0:
            yield
        window = body[start : start + WINDOW_BYTES]
        first, last = _first_cut(window), _last_cut(window)
        if last - first >= _LEAST_LEFT_OUT and _is_inside_of_a_string(window[first:last]):
            kept += (window[:first], mark, b"%d" % len(cuts), _END, window[last:])
            cuts.append(Cut(start + first, start + last))
            strings.go_on(window[:first] + window[last:])
            continue
        yield
        strings.go_on(window)
        listed = items_in(window, strings)
        if listed is None:
            kept.append(window)
            whole += len(window)
            if whole > most:
                return None
            continue
        before = left_out(listed.items)
        kept += (window[: listed.start], before, mark, b"%d" % len(cuts), _END, b'"')
        kept.append(window[listed.stop :])
        # As if what is around the mark stood in the body.
        cuts.append(Cut(start + listed.start + len(before), start + listed.stop - 1))
    text = b"".join(kept)
    return Abridged(body, text, mark, cuts) if len(text) <= most else None


def _first_cut(window: bytes) -> int:
    """The first place before which no escape begins that could reach beyond it."""
    at = _CLEAR_OF_ESCAPES
    while at < _SEARCHED_FOR_A_CUT:
        escape = window.rfind(b"\\", at - _CLEAR_OF_ESCAPES, at)
        if escape < 0:
            return at
        at = escape + 1 + _CLEAR_OF_ESCAPES
    return len(window)


def _last_cut(window: bytes) -> int:
    at = len(window)
    while at > len(window) - _SEARCHED_FOR_A_CUT:
        escape = window.rfind(b"\\", max(at - _CLEAR_OF_ESCAPES, 0), at)
        if escape < 0:
            return at
        at = escape
    return 0


def _is_inside_of_a_string(piece: bytes) -> bool:
    """Whether it can be nothing else, if the body is JSON at all."""
    if not piece[:_SAMPLE_BYTES].strip(_IN_NUMBERS):
        return False  # most likely a list of token ids, or of coordinates
    try:
        _decode(b'"%b"' % piece)
    except msgspec.DecodeError:
        return False
    return True

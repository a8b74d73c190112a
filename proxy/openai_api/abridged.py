"""A large JSON body without the insides of its long strings and long lists.

What makes a body large is nearly always the inside of a few strings: pictures and sounds as base64,
long texts. Decoding 16 MiB in one go takes 5 ms, and nothing else runs meanwhile, in whatever
thread it is done. So a window of the body that can only be part of a string is left out and a mark
put in its place, before what remains is decoded. What is left of a window that holds many items of
a list are those at its ends (proxy/openai_api/listed.py), and a string that tells how many were
left out.

A window can only be part of a string if it is the inside of one: that the decoder says itself, so
that whatever it would refuse is not left out. Inside a string a mark is as good as what it stands
for; anywhere else it is no JSON, the decoding fails, and the body must be read as a whole. Cuts are
made where no escape is cut in two: the parts of one would be no JSON either.
"""

from __future__ import annotations

import re
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

_LONGEST_ESCAPE = len(rb"\uD83D\uDE00")  # of a character in two halves
_FIRST_HALF = re.compile(rb"\\u[dD][89abAB]..\\u", re.DOTALL)
_SEARCHED_FOR_A_CUT = 1024
_SEARCHED_AT_THE_END = 32
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
        inside = _inside_of_a_string(window, strings)
        if inside is not None:
            before, after = window[: inside.start], window[inside.stop :]
            kept += (before, mark, b"%d" % len(cuts), _END, after)
            cuts.append(Cut(start + inside.start, start + inside.stop))
            strings.go_on(before + after)
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
        told = left_out(listed.items)
        kept += (window[: listed.start], told, mark, b"%d" % len(cuts), _END, b'"')
        kept.append(window[listed.stop :])
        # As if what is around the mark stood in the body.
        cuts.append(Cut(start + listed.start + len(told), start + listed.stop - 1))
    text = b"".join(kept)
    return Abridged(body, text, mark, cuts) if len(text) <= most else None


def _inside_of_a_string(window: bytes, strings: Strings) -> Cut | None:
    """Most of a window, if that can be nothing else in a body that is JSON at all. `strings` have
    come to its start."""
    first = _cut_behind(window, 0, _SEARCHED_FOR_A_CUT)
    last = _cut_behind(window, max(0, len(window) - _SEARCHED_AT_THE_END), len(window))
    if first < 0 or last - first < _LEAST_LEFT_OUT:
        return None
    piece = window[first:last]
    if not strings.is_inside and not piece[:_SAMPLE_BYTES].strip(_IN_NUMBERS):
        return None  # most likely a list of token ids, or of coordinates
    try:
        _decode(b'"%b"' % piece)
    except msgspec.DecodeError:
        return None
    return Cut(first, last)


def _cut_behind(window: bytes, start: int, stop: int) -> int:
    """A place from `start` on where surely no escape is cut in two, or -1 when there is none before
    `stop`."""
    at = start + _LONGEST_ESCAPE  # one that began before `start` is over there
    while at < stop:
        last = window.rfind(b"\\", at - _LONGEST_ESCAPE, at)
        if last < 0:
            return at
        before_run = len(window[start : last + 1].rstrip(b"\\"))
        if before_run:  # else backslashes before `start` may belong to it
            begins_escape = (last + 1 - start - before_run) % 2 == 1
            return max(at, _end_of_escape(window, last) if begins_escape else last + 1)
        at = last + 1 + _LONGEST_ESCAPE
    return -1


def _end_of_escape(window: bytes, start: int) -> int:
    if _FIRST_HALF.match(window, start):
        return start + _LONGEST_ESCAPE
    return start + (len(rb"\u0000") if window[start + 1 : start + 2] == b"u" else len(rb"\n"))

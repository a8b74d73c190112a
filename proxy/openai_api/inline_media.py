"""Images, sounds and videos that stand in a prompt as base64.

Their bytes say nothing about their tokens: a picture of 2 MB takes about as many as one of 200 kB,
and neither a hundredth of what a text of that length would take.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from proxy.openai_api.steps import all_at_once

if TYPE_CHECKING:
    from msgspec import Raw

    from proxy.openai_api.steps import Steps

MEDIUM_BYTES = 4096
"""What each of them counts as: about 1,000 tokens of text, as a picture of 1,000 x 1,000 pixels
takes in the common models."""

# What is shorter than this and is no text is overrated by a few thousand tokens at most.
_SEARCHED_BYTES = 32 * 1024

# Searching takes 1 ms for each MiB of text; so at first only samples are looked at, which takes
# a twentieth. Every medium above MEDIUM_BYTES has one of them wholly inside.
_SAMPLE_BYTES = 64
_STRIDE = MEDIUM_BYTES - _SAMPLE_BYTES

# A data URL, and the form of the Messages API: {"type": "base64", ..., "data": "...".
_DATA_URL = b"base64,"
_TYPE = b'base64"'
_DATA = re.compile(rb'"data"[ \t\r\n]{0,20}:[ \t\r\n]{0,20}"\Z')
_FURTHEST_APART = 200
_LEAD_BYTES = 256

# What is looked at in one step.
_WINDOW = 16 * _STRIDE


class Sliceable(Protocol):
    """Bytes, or what gives them when a slice of it is taken."""

    def __len__(self) -> int: ...
    def __getitem__(self, where: slice, /) -> bytes | memoryview: ...


def text_bytes(raw: Raw) -> int:
    """The length of a prompt's JSON, with every inline medium as MEDIUM_BYTES."""
    if len(raw) < _SEARCHED_BYTES:
        return len(raw)
    with memoryview(raw) as prompt:
        return all_at_once(text_bytes_in_steps(prompt))


def text_bytes_in_steps(prompt: Sliceable) -> Steps[int]:
    """As text_bytes."""
    if len(prompt) < _SEARCHED_BYTES:
        return len(prompt)
    may_hold_media = yield from _may_hold_media(prompt)
    saved = (yield from _saved_by_media(prompt)) if may_hold_media else 0
    return len(prompt) - saved


def _may_hold_media(prompt: Sliceable) -> Steps[bool]:
    """Whether any sample could be of base64: ordinary text has a space or an escape in it."""
    end = len(prompt) - _SAMPLE_BYTES
    for start in range(0, end, _WINDOW):
        yield
        window = bytes(prompt[start : min(start + _WINDOW, end) + _SAMPLE_BYTES])
        for at in range(0, len(window) - _SAMPLE_BYTES, _STRIDE):
            sample = window[at : at + _SAMPLE_BYTES]
            if b" " not in sample and b"\\" not in sample and sample.isascii():
                return True
    return False


def _saved_by_media(prompt: Sliceable) -> Steps[int]:
    """How much longer the media are than what they count as.

    Whatever stands in a prompt, it has few strings that are longer than a medium counts; so those
    are looked for, and in them, and before them, what makes a string a medium.
    """
    saved = 0
    medium: int | None = None  # where the one begins that the last window ended in
    for start in range(0, len(prompt), _WINDOW):
        yield
        offset = max(start - _LEAD_BYTES, 0)
        window = bytes(prompt[offset : start + _WINDOW])
        at = start - offset
        while (end := window.find(b'"', at)) >= 0:
            medium = _medium(medium, window, at, end, offset)
            if medium is not None:
                saved += max(offset + end - medium - MEDIUM_BYTES, 0)
            at = window.rfind(b'"', end, end + MEDIUM_BYTES) + 1
            medium = offset + at if _is_data_next(window[max(at - _LEAD_BYTES, 0) : at]) else None
        medium = _medium(medium, window, at, len(window), offset)
    return saved


def _medium(known: int | None, window: bytes, string: int, end: int, offset: int) -> int | None:
    """Where in the prompt the medium begins that a string holds, if it does hold one."""
    if known is not None:
        return known
    start = window.find(_DATA_URL, max(string - len(_DATA_URL), 0), end)
    return None if start < 0 else offset + start + len(_DATA_URL)


def _is_data_next(lead: bytes) -> bool:
    """Whether the string that begins after this is the data of something of the type base64."""
    data = _DATA.search(lead, max(len(lead) - 48, 0))
    if data is None:
        return False
    kind = lead.rfind(_TYPE, max(data.start() - _FURTHEST_APART - len(_TYPE), 0), data.start())
    between = lead[kind : data.start()]
    return kind >= 0 and b"{" not in between and b"}" not in between

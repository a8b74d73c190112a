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
_MEDIUM = re.compile(rb'base64(?:,|"[^{}]{0,200}?"data"[ \t\r\n]{0,20}:[ \t\r\n]{0,20}")')
_LONGEST_MATCH = 256

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
    """How much longer the media are than what they count as."""
    saved = position = 0
    for start in range(0, len(prompt), _WINDOW):
        if start + _WINDOW <= position:
            continue  # inside of a medium
        yield
        window = bytes(prompt[start : start + _WINDOW + _LONGEST_MATCH])
        while (found := _medium_in(window, position - start)) is not None:
            end = yield from _end_of_string(prompt, start + found.end())
            saved += max(end - (start + found.end()) - MEDIUM_BYTES, 0)
            position = end
    return saved


def _medium_in(window: bytes, start: int) -> re.Match[bytes] | None:
    """The first that begins in a window and not in the next."""
    if b"base64" not in window:  # ten times as fast where it is not
        return None
    found = _MEDIUM.search(window, max(start, 0))
    return found if found is not None and found.start() < _WINDOW else None


def _end_of_string(prompt: Sliceable, start: int) -> Steps[int]:
    """Where the next quote stands. (There is one in JSON.)"""
    for at in range(start, len(prompt), _WINDOW):
        quote = bytes(prompt[at : at + _WINDOW]).find(b'"')
        if quote >= 0:
            return at + quote
        yield
    return len(prompt)

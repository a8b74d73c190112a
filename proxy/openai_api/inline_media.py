"""Images, sounds and videos that stand in a prompt as base64.

Their bytes say nothing about their tokens: a picture of 2 MB takes about as many as one of 200 kB,
and neither a hundredth of what a text of that length would take.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msgspec import Raw

MEDIUM_BYTES = 4096
"""What each of them counts as: about 1,000 tokens of text, as a picture of 1,000 x 1,000 pixels
takes in the common models."""

# What is shorter than this and is no text is overrated by a few thousand tokens at most.
_SEARCHED_BYTES = 32 * 1024

# Searching takes 0.7 ms for each MiB of text; so at first only samples are looked at, which takes
# a twentieth. Every medium above MEDIUM_BYTES has one of them wholly inside.
_SAMPLE_BYTES = 64

# A data URL, and the form of the Messages API: {"type": "base64", ..., "data": "..."}.
_MEDIUM = re.compile(rb'base64(?:,|"[^{}]{0,200}?"data"[ \t\r\n]*:[ \t\r\n]*")')


def text_bytes(raw: Raw) -> int:
    """The length of a prompt's JSON, with every inline medium as MEDIUM_BYTES."""
    if len(raw) < _SEARCHED_BYTES:
        return len(raw)
    with memoryview(raw) as prompt:
        may_hold_media = _may_hold_media(prompt)
    return _text_bytes(bytes(raw)) if may_hold_media else len(raw)


def _may_hold_media(prompt: memoryview) -> bool:
    """Whether any sample could be of base64: ordinary text has a space or an escape in it."""
    for start in range(0, len(prompt) - _SAMPLE_BYTES, MEDIUM_BYTES - _SAMPLE_BYTES):
        sample = bytes(prompt[start : start + _SAMPLE_BYTES])
        if b" " not in sample and b"\\" not in sample and sample.isascii():
            return True
    return False


def _text_bytes(prompt: bytes) -> int:
    length, position = len(prompt), 0
    while (found := _MEDIUM.search(prompt, position)) is not None:
        position = prompt.find(b'"', found.end())
        if position < 0:  # cannot be in JSON, and need not be relied upon
            break
        medium = position - found.end()
        length -= max(medium - MEDIUM_BYTES, 0)
    return length

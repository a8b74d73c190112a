"""Cuts numbers that are none: digits without an end, as in a dump that a line of a log carries.

Nothing that is counted or measured has more than 18 digits. What looks for numbers would try each
digit of such a run as the first of one (256 KiB of them took minutes), and Python makes no integer
of more than 4,300.
"""

from __future__ import annotations

import re

_IN_BYTES = re.compile(rb"([0-9]{18})[0-9]+")
_IN_TEXT = re.compile(r"(\d{18})\d+")


def without_endless_numbers(line: bytes) -> bytes:
    """The first 18 digits of each number are left."""
    return _IN_BYTES.sub(rb"\1", line)


def text_without_endless_numbers(line: str) -> str:
    """As without_endless_numbers."""
    return _IN_TEXT.sub(r"\1", line)

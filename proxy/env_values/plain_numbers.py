"""Numbers as people write them: digits, a point, an exponent.

Python's float() and int() take more: `1_0` for 10, digits of every script, `nan`, `infinity`. Who
writes those mostly meant something else, and no other program would agree on what it says.
"""

from __future__ import annotations

import math
import re

# Each digit can be matched in one way only: a long row of them costs no more than reading it.
_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_BLANKS = " \t\r\n"
# No parser of HTTP lets a Content-Length of more pass, zeros before it aside (2 ** 64).
_DIGITS = 20


def plain_number(text: str) -> float | None:
    """Finite; None if it is no such number. Blanks around it do not count."""
    written = text.strip(_BLANKS)
    if not _NUMBER.fullmatch(written):
        return None
    number = float(written)
    return number if math.isfinite(number) else None


def is_read_as_more(text: str) -> bool:
    """Whether Python takes it for a number, and nobody else would."""
    try:
        float(text)
    except ValueError:
        return False
    return plain_number(text) is None


def content_length(value: bytes) -> int:
    """As int(), but for zeros without end before it, which parsers let pass and int() does not. One
    that has more digits than any length is beyond every limit all the same."""
    return int(value if len(value) <= _DIGITS else value.lstrip(b"0")[:_DIGITS] or b"0")

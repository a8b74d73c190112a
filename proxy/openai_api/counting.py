"""Counts sequences and reads small values in raw JSON, as leniently as the engine does.

vLLM validates with pydantic in lax mode: "4", 4.0 and true are integers there. A count here never
falls below what the engine would run for a body that it accepts; for one that it refuses any
count will do.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw

_items = msgspec.json.Decoder(list[Raw]).decode
_entries = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_scalar = msgspec.json.Decoder(bool | int | float | str | None).decode

# A string that stands for items which were left out of a list (proxy/openai_api/abridged.py). No
# string begins like this: it is no UTF-8, and where a client writes it the engine reads nothing.
_IN_NO_TEXT = b"\xfe"
_LEFT_OUT = b'"' + _IN_NO_TEXT
_HOW_MANY = re.compile(_LEFT_OUT + rb"([0-9]{1,6})\xff")
_FIRST_ITEM = re.compile(rb"\[[ \t\r\n]*(.)", re.DOTALL)
_NULL = Raw(b"null")
_MOST_OBJECTS = 250_000  # 12 to 19 ms (2026-12)
# Beyond it a name is nobody's.
_LONGEST_TEXT = 4400
# What is longer is padded, with zeros or blanks: pydantic reads "00...04" and 4.00...0 as 4,
# however long they are. Of such numbers msgspec reads some as 0.
_LONGEST_ORDINARY = 64
_TRUE_WORDS = frozenset({"1", "on", "t", "true", "y", "yes"})


def is_given(raw: Raw) -> bool:
    """Whether the field is there and not null."""
    return len(raw) > 0 and raw != _NULL


def count_prompts(raw: Raw) -> int:
    """A text or a list of token ids is one prompt, and so is one conversation (a list of
    messages); a list of texts, of token id lists or of conversations is as many as it has."""
    if not is_given(raw):
        return 0
    first = first_item(raw)
    if first is None:
        return 1
    return _length(raw) if first in b'"[' else 1


def count_items(raw: Raw) -> int:
    """A list is as many inputs as it has items, anything else is one."""
    if not is_given(raw):
        return 0
    first = first_item(raw)
    if first is None:
        return 1
    return _numbers(raw) if first in b"-0123456789" else _length(raw)


def left_out(items: int) -> bytes:
    """How a string begins that stands for so many items of a list."""
    return _LEFT_OUT + b"%d" % items


def _length(raw: Raw) -> int:
    listed = bytes(raw)
    if _IN_NO_TEXT not in listed:
        commas = listed.count(b",")
        # Each item is an object for a moment, and nothing else runs: 60 MiB of them took 1.5 s and
        # 1.9 GiB. So many are counted too high, if they have commas in them, rather than so.
        return len(_items(raw)) if commas < _MOST_OBJECTS else commas + 1
    items = _items(raw)
    found = [_HOW_MANY.match(item) for item in items]
    return len(items) + sum(int(more[1]) - 1 for more in found if more and int(more[1]) > 0)


def _numbers(raw: Raw) -> int:
    """Items of a list of numbers: without an object for each, in a tenth of the time."""
    listed = bytes(raw)
    if b'"' in listed or b"{" in listed or listed.find(b"[", 1) > 0:
        return _length(raw)
    return listed.count(b",") + 1


def count_entries(raw: Raw) -> int:
    """Entries of an object; keys that are repeated count once, as the engine reads them."""
    try:
        return len(_entries(raw)) if is_given(raw) else 0
    except msgspec.DecodeError:
        return 1


def first_item(raw: Raw | bytes | memoryview) -> bytes | None:
    """The first byte after the bracket of a list (of an empty one, the other bracket)."""
    found = _FIRST_ITEM.match(raw)
    return found[1] if found else None


def integer(raw: Raw) -> int | None:
    """The integer that the engine would read, None when there is none."""
    value = _scalar(raw)
    if isinstance(value, str):
        value = _number_in(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return int(value) if isinstance(value, int) else None


def is_true(raw: Raw) -> bool:
    """Whether the engine would read the value as true."""
    value = _scalar(raw)
    return value.lower() in _TRUE_WORDS if isinstance(value, str) else value == 1


def text(raw: Raw) -> str | None:
    """The string, None when it is none, or absurdly long."""
    value = _scalar(raw)
    return value if isinstance(value, str) and len(value) <= _LONGEST_TEXT else None


def _scalar(raw: Raw) -> bool | int | float | str | None:
    """A string, number or boolean; None for anything else. Takes no longer than reading it."""
    if not raw:
        return None
    try:
        if len(raw) > _LONGEST_ORDINARY and (written := bytes(raw))[0] in b"-0123456789":
            return float(written)  # an integer of that length is beyond all bounds
        value: bool | int | float | str | None = _decode_scalar(raw)
    except msgspec.DecodeError:
        return None
    return value


def _number_in(value: str) -> int | float | None:
    try:
        return int(value)
    except ValueError:  # no integer, or with more than 4300 digits, of which most may be zeros
        pass
    try:
        return float(value)
    except ValueError:
        return None

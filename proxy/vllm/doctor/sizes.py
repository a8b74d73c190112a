"""Sizes as logs write them, to bytes and back."""

import re

_UNITS = {
    "b": 1,
    "byte": 1,
    "bytes": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    # vLLM 0.6 and torch before 2.1 say GB and MB and mean powers of two.
    "kb": 1 << 10,
    "mb": 1 << 20,
    "gb": 1 << 30,
    "tb": 1 << 40,
}
# A named group may stand only once in a pattern, so the size is plain text for other patterns.
SIZE = r"-?\d[\d,]{0,18}(?:\.\d{1,9})? ?(?:[KMGT]i?B|[Bb]ytes?|B)\b"
_SIZE = re.compile(r"(-?[\d,]*\.?\d+) ?([A-Za-z]+)")

GIB = 1 << 30
MIB = 1 << 20


def size_in_bytes(text: str | None) -> int | None:
    """`20.00 MiB` is 20971520; None for what is no size."""
    found = _SIZE.fullmatch(text.strip()) if text else None
    unit = _UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        return None
    return int(float(found[1].replace(",", "")) * unit)


def gib(size: float) -> int:
    """GiB, as logs give them, in bytes."""
    return int(size * GIB)


def readable(size: float | None) -> str:
    """With three digits, as a person would say it."""
    if size is None:
        return "unknown"
    if abs(size) >= GIB:
        return f"{size / GIB:.2f} GiB"
    if abs(size) >= MIB:
        return f"{size / MIB:.0f} MiB"
    return f"{size / 1024:.0f} KiB" if abs(size) >= 1024 else f"{size:.0f} bytes"

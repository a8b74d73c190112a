"""One cell of a memory curve: a size, a share, a moment. What it does not tell is None, never 0."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MIB = 1 << 20
_UNITS = {
    "b": 1,
    "bytes": 1,
    "kib": 1 << 10,
    "kb": 1 << 10,
    "mib": MIB,
    "mb": MIB,
    "gib": 1 << 30,
    "gb": 1 << 30,
    "tib": 1 << 40,
}
_SIZE = re.compile(r"(\d++(?:\.\d++)?+)\s*+([a-zA-Z]*+)")
_NVIDIA_TIME = re.compile(
    r"(\d{4})[/-](\d{1,2})[/-](\d{1,2})[ T](\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d{1,9}))?"
)
_WEEKDAY_FIRST = re.compile(r"(?:\w{3} )?(\w{3}) +(\d{1,2}) (\d{2}:\d{2}:\d{2}) (\d{4})")
# Seconds since 1970 between 2001 and 2286; a thousandfold is milliseconds.
_UNIX = re.compile(r"\d{10}(?:\.\d+)?|\d{13}")


def size_of(cell: str, unit: int) -> int | None:
    """Bytes. `unit` counts where the cell names none."""
    match = _SIZE.fullmatch(cell.strip())
    if match is None:
        return None
    number, name = match.groups()
    factor = _UNITS.get(name.lower()) if name else unit
    size = math.inf if factor is None else float(number) * factor
    return int(size) if math.isfinite(size) else None


def unit_named(text: str) -> int | None:
    """The unit in the brackets of a header such as `memory.used [MiB]`."""
    return _UNITS.get(text.strip().lower())


def number_of(cell: str) -> float | None:
    """A finite number from 0 up, with or without a percent sign."""
    try:
        number = float(cell.strip().removesuffix("%"))
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def moment_of(cell: str) -> float | None:
    """Seconds since 1970, taking a stamp without a zone for UTC: only differences count."""
    cell = cell.strip()
    if match := _NVIDIA_TIME.match(cell):
        *parts, fraction = match.groups()
        return _seconds(*map(int, parts)) + float(f"0.{fraction or 0}")
    if _UNIX.fullmatch(cell):
        return float(cell) / (1000 if len(cell) == 13 and "." not in cell else 1)
    if match := _WEEKDAY_FIRST.match(cell):
        month, day, clock, year = match.groups()
        return _parsed(f"{day} {month} {year} {clock} +0000")
    return None


def _seconds(*parts: int) -> float:
    try:
        return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[misc, arg-type] # six numbers
    except ValueError:
        return math.nan


def _parsed(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None

"""Loads as written on the command line: `name:value,key=value`, durations as `90s` or `2m`."""

from __future__ import annotations

import re

from proxy.env_values.plain_numbers import plain_number

_UNIT_S = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9.]+(?:e[0-9]+)?)(ms|s|min|m|h)?")


class BadSpecificationError(ValueError):
    """One line: what was written, and what can be."""


def number(written: str, what: str, *, least: float = 0.0) -> float:
    """Finite and at least `least`. Raises BadSpecificationError."""
    value = plain_number(written)
    if value is None:
        raise BadSpecificationError(f"{what} is {written!r}, which is no number")
    if value < least:
        raise BadSpecificationError(f"{what} is {written!r}, and must be at least {least:g}")
    return value


def positive(written: str, what: str) -> float:
    """Raises BadSpecificationError."""
    value = number(written, what)
    if value <= 0:
        raise BadSpecificationError(f"{what} is {written!r}, and must be above 0")
    return value


def duration_s(written: str, what: str) -> float:
    """`1.5`, `250ms`, `90s`, `2m` or `2min`, `1h`. Raises BadSpecificationError."""
    found = _DURATION.fullmatch(written.strip())
    if found is None:
        raise BadSpecificationError(f"{what} is {written!r}; write 1.5, 250ms, 90s, 2m or 1h")
    return number(found[1], what) * _UNIT_S[found[2] or ""]


def split(written: str) -> tuple[str, list[str], dict[str, str]]:
    """`name:a,b,key=c` as its name, the values without a key, and those with one."""
    name, _, rest = written.strip().partition(":")
    plain, named = [], {}
    for part in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = part.partition("=")
        if equals:
            named[key.strip()] = value.strip()
        else:
            plain.append(part)
    return name.strip(), plain, named

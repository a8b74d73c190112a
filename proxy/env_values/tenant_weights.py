"""How shares of tenants are written in a setting: `name:weight`, comma-separated."""

from __future__ import annotations

import re

LEAST_WEIGHT = 0.001
MOST_WEIGHT = 1_000

# As a header can carry it. No comma, which separates entries; a colon may be inside, as in a URN.
_NAME = re.compile(r"(?=.{1,128}$)[!-+\--~]([ -+\--~]*[!-+\--~])?")
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+(e-?[0-9]{1,3})?", re.IGNORECASE)


def parse_tenant_weights(value: object) -> tuple[tuple[str, float], ...]:
    """(name, weight) pairs in the order in which they are written; names keep their case.

    Raises ValueError naming the entry and its fault.
    """
    weights: dict[str, float] = {}
    for name, weight in map(_pair, _entries(value)):
        if name in weights:
            raise ValueError(f"{name!r} is there twice")
        weights[name] = weight
    return tuple(weights.items())


def _entries(value: object) -> list[str]:
    if isinstance(value, str):
        return [entry.strip() for entry in value.split(",") if entry.strip()]
    if isinstance(value, (list, tuple)):
        return [f"{name}:{weight!r}" for name, weight in value]
    raise ValueError("must be 'name:weight', comma-separated")


def _pair(entry: str) -> tuple[str, float]:
    name, colon, written = entry.rpartition(":")
    name, written = name.strip(), written.strip()
    if not colon:
        raise ValueError(f"{entry!r} must be a name and a weight, such as 'gold:3'")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{entry!r} must begin with a name of 1 to 128 printable ASCII characters")
    weight = float(written) if _NUMBER.fullmatch(written) else 0.0
    if not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        raise ValueError(f"{entry!r} must end in a weight from {LEAST_WEIGHT} to {MOST_WEIGHT}")
    return name, weight

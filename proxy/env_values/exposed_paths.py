"""How extra routes are written in a setting: `METHOD /path`, comma-separated."""

from __future__ import annotations

import re

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
# Printable ASCII, no blank, comma, query or fragment: a path is compared byte for byte.
_PATH = re.compile(r"/[!-~]{0,1023}")
_NOT_IN_A_PATH = frozenset("?#,\\")


def parse_exposed_paths(value: object) -> tuple[tuple[str, str], ...]:
    """(method, path) pairs; raises ValueError naming the entry and its fault."""
    if not isinstance(value, str):
        return tuple(_pair(f"{method} {path}") for method, path in _pairs(value))
    return tuple(_pair(entry) for entry in value.split(",") if entry.strip())


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    if isinstance(value, (list, tuple)):
        return tuple(value)
    raise ValueError("must be 'METHOD /path', comma-separated")


def _pair(entry: str) -> tuple[str, str]:
    words = entry.split()
    if len(words) != 2:
        raise ValueError(f"{entry.strip()!r} must be a method and a path, such as 'GET /health'")
    method, path = words[0].upper(), words[1]
    if method not in _METHODS:
        raise ValueError(f"{words[0]!r} is not one of {', '.join(_METHODS)}")
    if not _PATH.fullmatch(path) or _NOT_IN_A_PATH & set(path):
        raise ValueError(
            f"{path!r} must be one plain path that starts with / and has no ?, # or backslash"
        )
    if {".", ".."} & set(path.split("/")):
        raise ValueError(f"{path!r} must not have . or .. as a part")
    return method, path

"""How client keys are written: `name:key` or `key`, separated by commas or lines.

They are hashed as soon as they are read, and nothing that outlives the reading has one in clear.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from proxy.env_values.key_digest import KeyDigest

if TYPE_CHECKING:
    from pathlib import Path

NamedKeys = tuple[tuple[str, KeyDigest], ...]

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEY = re.compile(r"[!-~]{1,1024}")


def given_client_keys(value: object) -> object:
    """The value of SLUICE_API_KEYS as NamedKeys; what is no text is left for the type to judge.

    Raises ValueError, which quotes no key.
    """
    if not isinstance(value, str):
        return value
    given = _at_least_one(parse_client_keys(value))
    merge_client_keys(given)
    return given


def load_client_keys(given: NamedKeys, path: Path | None) -> dict[str, KeyDigest]:
    """By name, those of SLUICE_API_KEYS and of the file that SLUICE_API_KEYS_FILE names.

    Raises ValueError in one line, which names the variable and quotes no key.
    """
    if path is None:
        return merge_client_keys(given)
    try:
        in_file = parse_client_keys(path.read_text("utf-8"), first=len(given) + 1)
        return merge_client_keys(given, _at_least_one(in_file))
    except (ValueError, OSError) as error:
        raise ValueError(f"SLUICE_API_KEYS_FILE={path}: {_reason(error)}") from None


def parse_client_keys(text: str, first: int = 1) -> NamedKeys:
    """(name, key) pairs. A key without a name is called `key-1`, `key-2`... by its position,
    which is counted from `first`.

    A line that starts with # is a comment. Raises ValueError, which names the position of the
    entry and quotes nothing of it.
    """
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    entries = [entry.strip() for line in lines for entry in line.split(",") if entry.strip()]
    return tuple(_named_key(entry, first + index) for index, entry in enumerate(entries))


def merge_client_keys(*sources: NamedKeys) -> dict[str, KeyDigest]:
    """All keys by name; raises ValueError when a name or a key is there twice."""
    keys: dict[str, KeyDigest] = {}
    for name, key in (pair for source in sources for pair in source):
        if name in keys:
            raise ValueError(f"the key name {name!r} is there twice")
        holder = next((other for other, known in keys.items() if known == key), None)
        if holder is not None:
            raise ValueError(f"{holder!r} and {name!r} have the same key")
        keys[name] = key
    return keys


def _named_key(entry: str, position: int) -> tuple[str, KeyDigest]:
    name, colon, key = entry.partition(":")
    if not colon:
        name, key = f"key-{position}", entry
    name, key = name.strip(), key.strip()
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"key {position}: its name must be 1 to 64 letters, digits, dots, dashes or underscores"
        )
    if not _KEY.fullmatch(key):
        raise ValueError(f"key {position}: it must be 1 to 1024 printable characters, no blanks")
    return name, KeyDigest.of(key)


def _at_least_one(pairs: NamedKeys) -> NamedKeys:
    """Keys that were meant and are not there must not leave the door open."""
    if not pairs:
        raise ValueError("holds no key")
    return pairs


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):  # its own words would quote bytes of the file
        return "must be UTF-8 text"
    return f"cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)

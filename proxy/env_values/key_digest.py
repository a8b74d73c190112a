"""A secret that is only ever compared, never sent: what is kept of it is its hash."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

SHORTEST_SOUND_KEY = 16
"""Characters below which a key can be guessed by trying."""


@dataclass(frozen=True, slots=True)
class KeyDigest:
    """Keys are long random strings, so the hash needs no salt and no slowness."""

    sha256: bytes = field(repr=False)
    is_short: bool = field(repr=False)

    @classmethod
    def of(cls, key: str) -> KeyDigest:
        return cls(sha256_of(key.encode()), len(key) < SHORTEST_SOUND_KEY)

    def __str__(self) -> str:
        return "***"


def sha256_of(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()

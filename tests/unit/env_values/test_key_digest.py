from __future__ import annotations

import hashlib

import pytest

from proxy.env_values.key_digest import SHORTEST_SOUND_KEY, KeyDigest, sha256_of

KEY = "sk-of-the-application"


def test_a_key_is_known_by_its_hash_and_by_nothing_else() -> None:
    assert KeyDigest.of(KEY) == KeyDigest.of(KEY)
    assert KeyDigest.of(KEY) != KeyDigest.of(KEY + "x")
    assert (
        KeyDigest.of(KEY).sha256 == sha256_of(KEY.encode()) == hashlib.sha256(KEY.encode()).digest()
    )


def test_neither_the_key_nor_its_hash_is_shown() -> None:
    digest = KeyDigest.of(KEY)
    shown = f"{digest} {digest!r}"
    assert KEY not in shown
    assert repr(digest.sha256)[2:8] not in shown


@pytest.mark.parametrize(("length", "short"), [(1, True), (15, True), (16, False)])
def test_it_remembers_whether_the_key_was_too_short(length: int, short: bool) -> None:
    assert SHORTEST_SOUND_KEY == 16
    assert KeyDigest.of("x" * length).is_short is short

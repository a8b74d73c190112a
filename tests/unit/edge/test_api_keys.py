from __future__ import annotations

import hmac
from hmac import compare_digest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.edge.api_keys import ApiKeys
from proxy.env_values.key_digest import KeyDigest

KEY = "sk-0123456789abcdef"
KEYS = ApiKeys({"team-a": KeyDigest.of(KEY), "team-b": KeyDigest.of("sk-other")})


def authorization(*values: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", value.encode()) for value in values]


def x_api_key(*values: str) -> list[tuple[bytes, bytes]]:
    return [(b"x-api-key", value.encode()) for value in values]


def test_without_keys_nobody_is_asked_for_one() -> None:
    assert not ApiKeys({}).required
    assert KEYS.required


def test_without_keys_no_key_is_one_of_ours() -> None:
    assert ApiKeys({}).holder(authorization("Bearer ")) is None


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_key_comes_as_a_bearer_in_any_case(scheme: str) -> None:
    # RFC 9110, 11.1: the scheme is case-insensitive. The key is not.
    assert KEYS.holder(authorization(f"{scheme} {KEY}")) == "team-a"


def test_a_key_comes_as_anthropics_sdk_sends_it() -> None:
    assert KEYS.holder(x_api_key("sk-other")) == "team-b"


def test_blanks_around_the_key_are_not_part_of_it() -> None:
    assert KEYS.holder(authorization(f"Bearer   {KEY} ")) == "team-a"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer  ",
        KEY,
        f"Bearer:{KEY}",
        f"Bearer\t{KEY}",
        f"Basic {KEY}",
        f"Token {KEY}",
        f"BearerX {KEY}",
        f" Bearer {KEY}",
        f"Bearer {KEY[:-1]}",
        f"Bearer {KEY[1:]}",
        f"Bearer {KEY}x",
        f"Bearer x{KEY}",
        f"Bearer {KEY.upper()}",
        f"Bearer {KEY} {KEY}",
        f"Bearer {KEY},{KEY}",
        f"Bearer {KEY}, Bearer {KEY}",
        f'Bearer "{KEY}"',
        f"Bearer Bearer {KEY}",
        f"Bearer {KEY}\x00",
        f"Bearer team-a:{KEY}",
        "Bearer team-a",
    ],
)
def test_anything_else_is_nobodys(value: str) -> None:
    assert KEYS.holder(authorization(value)) is None


@pytest.mark.parametrize("value", ["", " ", KEY[:-1], KEY + "x", f"Bearer {KEY}", f" {KEY}"])
def test_anything_else_in_the_other_header_is_nobodys(value: str) -> None:
    assert KEYS.holder(x_api_key(value)) is None


def test_no_credential_is_nobodys() -> None:
    assert KEYS.holder([(b"content-type", b"application/json"), (b"cookie", KEY.encode())]) is None


@pytest.mark.parametrize("kind", [authorization, x_api_key])
def test_two_credentials_of_a_kind_are_none(kind: object) -> None:
    assert callable(kind)
    good = KEY if kind is x_api_key else f"Bearer {KEY}"
    for pair in [(good, good), (good, "x"), ("x", good), (good, "")]:
        assert KEYS.holder(kind(*pair)) is None


def test_a_wrong_authorization_is_not_helped_by_the_other_header() -> None:
    assert KEYS.holder(authorization("Bearer wrong") + x_api_key(KEY)) is None
    assert KEYS.holder(authorization(f"Basic {KEY}") + x_api_key(KEY)) is None


def test_keys_that_are_no_ascii_are_compared_all_the_same() -> None:
    keys = ApiKeys({"who": KeyDigest.of("schlüssel")})
    assert keys.holder(authorization("Bearer schlüssel")) == "who"
    assert keys.holder([(b"authorization", "Bearer schlüssel".encode("latin-1"))]) is None


@given(st.binary(max_size=64))
def test_no_other_bytes_open(presented: bytes) -> None:
    known = {KEY.encode(), b"sk-other"}
    if presented.strip() not in known:
        assert KEYS.holder([(b"authorization", b"Bearer " + presented)]) is None
        assert KEYS.holder([(b"x-api-key", presented)]) is None


def test_every_key_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[tuple[int, int]] = []

    def compare(one: bytes, other: bytes) -> bool:
        lengths.append((len(one), len(other)))
        return compare_digest(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for value in (KEY, "sk-other", "wrong"):
        KEYS.holder(authorization(f"Bearer {value}"))
    assert lengths == [(32, 32)] * 6  # both keys each time, also when the first one matched


def test_no_key_can_be_read_out_of_the_set() -> None:
    assert KEY not in repr(vars(KEYS))

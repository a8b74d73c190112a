"""Client keys as they are written, and what must never be said about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.env_values.client_keys import (
    given_client_keys,
    load_client_keys,
    merge_client_keys,
    parse_client_keys,
)
from proxy.env_values.key_digest import KeyDigest

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.env_values.client_keys import NamedKeys


def named(**keys: str) -> NamedKeys:
    return tuple((name.replace("_", "-"), KeyDigest.of(key)) for name, key in keys.items())


def test_keys_are_separated_by_commas_or_lines() -> None:
    written = "team-a:sk-1, team-b : sk-2\r\n# a comment, left out\nteam-c:sk-3\n"
    assert parse_client_keys(written) == named(team_a="sk-1", team_b="sk-2", team_c="sk-3")


def test_a_key_without_a_name_is_called_by_its_position() -> None:
    assert parse_client_keys("sk-1,b:sk-2,sk-3") == named(key_1="sk-1", b="sk-2", key_3="sk-3")


def test_only_the_first_colon_ends_the_name() -> None:
    assert parse_client_keys("a:b:c") == named(a="b:c")


@pytest.mark.parametrize(
    "written", ["a:", ":secret", "a b:secret", "a:sec ret", "a:sécret", "x" * 65 + ":secret"]
)
def test_a_faulty_entry_is_named_by_position_and_not_quoted(written: str) -> None:
    with pytest.raises(ValueError, match="key 2") as caught:
        parse_client_keys("first:sk-1," + written)
    assert "sec" not in str(caught.value)


def test_a_name_is_there_once() -> None:
    with pytest.raises(ValueError, match="the key name 'a' is there twice"):
        merge_client_keys(named(a="1"), named(a="2"))


def test_a_key_has_one_name() -> None:
    with pytest.raises(ValueError, match="'a' and 'b' have the same key") as caught:
        merge_client_keys(named(a="secret", b="secret"))
    assert "secret" not in str(caught.value)


def test_keys_of_variable_and_file_come_together(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("b:sk-2\nsk-3\n")
    keys = load_client_keys(named(a="sk-1"), file)
    assert keys == dict(named(a="sk-1", b="sk-2", key_3="sk-3"))


def test_no_keys_are_no_keys() -> None:
    assert load_client_keys((), None) == {}


@pytest.mark.parametrize("written", [" ", ",", "\n,"])
def test_keys_that_were_meant_and_are_missing_do_not_leave_the_door_open(written: str) -> None:
    with pytest.raises(ValueError, match="holds no key"):
        given_client_keys(written)


@pytest.mark.parametrize("written", ["a:1,a:2", "a:1,b:1"])
def test_keys_that_cannot_be_told_apart_are_a_fault_of_their_variable(written: str) -> None:
    with pytest.raises(ValueError, match=r"twice|the same key"):
        given_client_keys(written)


def test_what_was_read_already_is_left_as_it_is() -> None:
    assert given_client_keys(named(a="1")) == named(a="1")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"# nothing\n", "holds no key"),
        (b"a:sk-1", "the key name 'a' is there twice"),
        (b"\xff\xfesecret", "must be UTF-8 text"),
    ],
)
def test_a_fault_in_the_file_names_the_file(tmp_path: Path, content: bytes, fault: str) -> None:
    file = tmp_path / "keys"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="SLUICE_API_KEYS_FILE=") as caught:
        load_client_keys(named(a="sk-0"), file)
    assert fault in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_that_went_away_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"SLUICE_API_KEYS_FILE=.*cannot be read \(No such file"):
        load_client_keys((), tmp_path / "gone")

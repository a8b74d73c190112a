"""Single values and their rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from proxy.env_values.key_digest import KeyDigest
from proxy.env_values.scalars import (
    header_safe_secret,
    host_name,
    lower_case,
    readable_file,
    token_digest,
    whole_number,
    writable_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    "host",
    [
        *("0.0.0.0", "127.0.0.2", "::", "::1", "2001:DB8::1", "::ffff:1.2.3.4", "fe80::1%eth0"),
        *("localhost", "gpu-1.internal", "gpu_1", "10-0-0-1.pod", "1a", "9.example", "gpu."),
    ],
)
def test_names_and_addresses_are_hosts(host: str) -> None:
    assert host_name(host) == host


@pytest.mark.parametrize(
    "host",
    [
        *("", "http://x", "a b", "[::1]", "x/y", "a\nb", "gpu\n", ".", "a..b", ".a", "x" * 64),
        *("999.1.1.1", "256.0.0.1", "1.2.3", "1.2.3.4.5", "0", "127.0.0.1.", "01.2.3.4", "x.7"),
        *("1.2.3.4:80", "::1:::", "12345::", "localhost:8080", "fe80::1%", "fe80::1%a b", "a%eth0"),
        *("١.٢.٣.٤", "a." * 130 + "a"),
    ],
)
def test_anything_else_is_no_host(host: str) -> None:
    with pytest.raises(ValueError, match="must be a host name"):
        host_name(host)


@pytest.mark.parametrize("key", ["a b", "a\nb", "ké", ""])
def test_a_key_that_cannot_travel_in_a_header_is_refused_unseen(key: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII without blanks"):
        header_safe_secret(SecretStr(key))


@pytest.mark.parametrize("token", ["", "a b" * 16, "é" * 16])
def test_a_token_that_cannot_travel_in_a_header_is_refused_unseen(token: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII without blanks"):
        token_digest(token)


def test_a_token_that_can_be_guessed_is_refused_unseen() -> None:
    with pytest.raises(ValueError, match="at least 16 characters") as caught:
        token_digest("qqqqqqqqqqqqqqq")
    assert "qqq" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_of_a_token_the_hash_is_kept() -> None:
    assert token_digest("q" * 16) == KeyDigest.of("q" * 16)
    assert token_digest(None) is None


def test_a_key_may_be_absent() -> None:
    assert header_safe_secret(None) is None


def test_words_are_read_without_regard_to_case() -> None:
    assert lower_case("INFO") == "info"
    assert lower_case(5) == 5


def test_digits_are_a_number_and_the_rest_stays_for_the_type_to_refuse() -> None:
    assert whole_number("503") == 503
    assert whole_number("busy") == "busy"
    assert whole_number(429) == 429
    assert whole_number("9" * 5000) == "9" * 5000
    assert whole_number("٥٠٣") == "٥٠٣"


@pytest.mark.parametrize("use", [readable_file, writable_file])
def test_a_path_that_cannot_even_be_looked_at_is_refused_like_any_other(
    use: Callable[[Path], object], tmp_path: Path
) -> None:
    """A name that is too long, as a directory that may not be entered, makes looking fail."""
    with pytest.raises(ValueError, match="must be a file that can be"):
        use(tmp_path / ("x" * 300))


def test_a_file_to_read_must_be_there(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.touch()
    assert readable_file(file) == file
    assert readable_file(None) is None
    for path in (tmp_path, tmp_path / "gone"):
        with pytest.raises(ValueError, match="can be read"):
            readable_file(path)


def test_a_file_to_write_may_be_new_but_not_its_directory(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    assert writable_file(file) == file
    file.touch()
    assert writable_file(file) == file
    assert writable_file(None) is None
    for path in (tmp_path, tmp_path / "gone" / "trace.jsonl"):
        with pytest.raises(ValueError, match="can be written"):
            writable_file(path)

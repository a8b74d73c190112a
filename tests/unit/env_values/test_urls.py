"""Lists of engine URLs, and URLs in messages."""

from __future__ import annotations

import pytest

from proxy.env_values.urls import split_urls, without_secrets


@pytest.mark.parametrize(
    "written", ["http://a:1/v1/", " http://a:1/v1/ ", "http://a:1/v1/,", ["http://a:1/v1/"]]
)
def test_a_url_stays_as_written(written: object) -> None:
    assert split_urls(written) == ("http://a:1/v1/",)


@pytest.mark.parametrize("written", [",", " ", []])
def test_a_list_without_a_url_is_no_list(written: object) -> None:
    with pytest.raises(ValueError, match="must be a base URL"):
        split_urls(written)


@pytest.mark.parametrize(
    "written", ["http://a,http://b", " http://a , http://b,", ["http://a", "http://b"]]
)
def test_several_are_taken_in_their_order(written: object) -> None:
    assert split_urls(written) == ("http://a", "http://b")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:secret@host:1/v1", "http://***@host:1/v1"),
        ("http://a@b:secret@host", "http://***@host"),
        ("http://host/v1?key=secret", "http://host/v1?***"),
        ("http://host/v1", "http://host/v1"),
        ("user:secret@host:1", "***@host:1"),
        ("http:/user:secret@host", "***@host"),
        ("http://a:secret@b,http://c:secret@d", "http://***@d"),
        ("host:1?key=secret", "host:1?***"),
        ("no url", "no url"),
    ],
)
def test_a_message_shows_no_password_and_no_query(text: str, shown: str) -> None:
    assert without_secrets(text) == shown

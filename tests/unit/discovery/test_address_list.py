from __future__ import annotations

import pytest

from proxy.discovery.address_list import parse_addresses


def urls(text: str) -> list[str]:
    return [str(address) for address in parse_addresses(text)]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", []),
        ("\n \n\t\n# nobody\n,,\n", []),
        ("http://a:1\nhttp://b:2\n", ["http://a:1", "http://b:2"]),
        ("http://b:2\r\nhttp://a:1", ["http://b:2", "http://a:1"]),
        ("http://a, http://b ,http://c,", ["http://a", "http://b", "http://c"]),
        ("  # all of them\n http://a # the old one, http://b\n#http://c", ["http://a"]),
        ("http://a/v1/\nhttp://a/p", ["http://a", "http://a/p"]),
    ],
)
def test_each_line_names_engines_and_comments_name_none(text: str, named: list[str]) -> None:
    assert urls(text) == named


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("http://a\n\nftp://b", "line 3: 'ftp://b' must start with http:// or https://"),
        ("gpu-1:8000", "line 1: 'gpu-1:8000' must start"),
        ("# x\nhttp://a http://b", "line 2: 'http://a http://b' contains a blank"),
        ("http://a,http://b:0", "line 1: 'http://b:0' has a port"),
        ("http://a#b", "line 1: 'http://a#b' must not have a query or a fragment"),
        ("http://a\nhttp://b\nHTTP://A:80/v1\n", "line 3: names http://a again"),
        ("http://\x00", "line 1: "),
    ],
)
def test_a_line_that_is_no_engine_is_named_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="line") as refusal:
        parse_addresses(text)
    assert str(refusal.value).startswith(words)
    assert "\n" not in str(refusal.value)


def test_a_password_in_a_line_is_not_repeated() -> None:
    with pytest.raises(ValueError, match="line 1") as refusal:
        parse_addresses("http://user:hunter2@engine")
    assert "hunter2" not in str(refusal.value)

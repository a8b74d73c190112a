from __future__ import annotations

import pytest

from proxy.upstream.address import UpstreamAddress


@pytest.mark.parametrize(
    ("url", "scheme", "host", "port", "authority", "prefix"),
    [
        ("http://engine", "http", "engine", 80, b"engine", b""),
        ("http://engine:80", "http", "engine", 80, b"engine", b""),
        ("http://engine:8000/", "http", "engine", 8000, b"engine:8000", b""),
        ("HTTP://Engine:8000", "http", "engine", 8000, b"engine:8000", b""),
        ("https://engine", "https", "engine", 443, b"engine", b""),
        ("https://engine:80", "https", "engine", 80, b"engine:80", b""),
        ("http://10.0.0.7:8000/v1", "http", "10.0.0.7", 8000, b"10.0.0.7:8000", b""),
        ("http://engine/v1/", "http", "engine", 80, b"engine", b""),
        ("http://engine/p", "http", "engine", 80, b"engine", b"/p"),
        ("http://engine/p/q/v1/", "http", "engine", 80, b"engine", b"/p/q"),
        ("http://engine/apiv1", "http", "engine", 80, b"engine", b"/apiv1"),
        ("http://[::1]:8000/v1", "http", "::1", 8000, b"[::1]:8000", b""),
        ("https://[2001:DB8::1]", "https", "2001:db8::1", 443, b"[2001:db8::1]", b""),
        ("http://vllm_server-0.ns.svc.:8000", "http", "vllm_server-0.ns.svc.", 8000, None, b""),
        ("http://bücher.example", "http", "xn--bcher-kva.example", 80, None, b""),
        ("http://engine/a%20b", "http", "engine", 80, b"engine", b"/a%20b"),
    ],
)
def test_a_base_url_is_taken_apart(
    url: str, scheme: str, host: str, port: int, authority: bytes | None, prefix: bytes
) -> None:
    address = UpstreamAddress.parse(url)
    assert (address.scheme, address.host, address.port) == (scheme, host, port)
    assert address.prefix == prefix
    assert address.authority == authority or authority is None
    assert address.is_tls == (scheme == "https")


@pytest.mark.parametrize(
    ("base", "path", "query", "target"),
    [
        ("http://h", b"/v1/x", b"", b"/v1/x"),
        ("http://h/v1", b"/v1/x", b"", b"/v1/x"),
        ("http://h/v1", b"/version", b"", b"/version"),
        ("http://h/p", b"/v1/x", b"a=b&a=c", b"/p/v1/x?a=b&a=c"),
        ("http://h/p/v1/", b"/v1/x", b"", b"/p/v1/x"),
        ("http://h/p", b"/v1/../%2e%2e//x%2Fy", b"?", b"/p/v1/../%2e%2e//x%2Fy??"),
    ],
)
def test_a_target_is_the_prefix_and_what_the_client_sent(
    base: str, path: bytes, query: bytes, target: bytes
) -> None:
    assert UpstreamAddress.parse(base).target(path, query) == target


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("", "must start with http:// or https://"),
        ("engine:8000", "must start with http:// or https://"),
        ("127.0.0.1:8000", "must start with http:// or https://"),
        ("ftp://engine", "must start with http:// or https://"),
        ("http:/engine", "must start with http:// or https://"),
        ("http:engine", "must start with http:// or https://"),
        ("http://", "names no host"),
        ("http://:8000", "names no host"),
        ("http://engine:0", "port"),
        ("http://engine:65536", "port"),
        ("http://engine:http", "port"),
        ("http://engine:-1", "port"),
        ("http://en gine", "blank"),
        ("http://engine\n", "blank"),
        ("http://engine/\x00", "control"),
        ("http://engine?key=1", "query"),
        ("http://engine/#x", "fragment"),
        ("http://engine/../x", "'..'"),
        ("http://engine/a//b", "empty"),
        ("http://engine/a\\b", "percent-encoded"),
        ("http://engine/ü", "percent-encoded"),
        ("http://[::1", "not a URL"),
        ("http://[::zz]", "URL|IPv6"),
        ("http://[fe80::1%25eth0]", "zone"),
        ("http://a..b", "host name"),
        ("http://" + "a" * 64, "host name"),
        ("http://" + ".".join(["a" * 60] * 5), "host name"),
        ("http://engine,http://other", "host name|port"),
        ("http://eng%69ne", "host name"),
    ],
)
def test_a_bad_url_is_refused_in_one_line_that_names_it(url: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule) as refusal:
        UpstreamAddress.parse(url)
    message = str(refusal.value)
    assert "\n" not in message
    assert message.startswith(("'", '"'))


@pytest.mark.parametrize(
    "url",
    [
        "user:hunter2@engine:1",
        "http://user:hunter2@engine",
        "http://hunter2@engine",
        "http://engine/?key=hunter2",
    ],
)
def test_a_refusal_does_not_repeat_a_secret(url: str) -> None:
    with pytest.raises(ValueError, match="engine") as refusal:
        UpstreamAddress.parse(url)
    assert "hunter2" not in str(refusal.value)


def test_an_address_shows_as_the_url_that_it_means() -> None:
    assert str(UpstreamAddress.parse("https://Engine:443/p/v1/")) == "https://engine/p"


def test_an_address_is_reached_where_its_host_leads_or_where_it_is_told() -> None:
    address = UpstreamAddress.parse("https://engine:8443/p")
    assert (address.connects_to, address.peer) == ("engine", "engine:8443")
    there = address.at("10.0.0.7")
    assert (there.connects_to, there.peer) == ("10.0.0.7", "engine:8443#10.0.0.7")
    assert (there.host, there.authority, there.url) == ("engine", b"engine:8443", address.url)


def test_only_one_of_several_has_its_address_in_its_name() -> None:
    address = UpstreamAddress.parse("http://engine:8000/p/v1")
    assert str(address.at("10.0.0.7")) == "http://engine:8000/p"
    several = address.at("fd00::7", one_of_several=True)
    assert str(several) == "http://engine:8000/p#fd00::7"
    with pytest.raises(ValueError, match="fragment"):
        UpstreamAddress.parse(str(several))

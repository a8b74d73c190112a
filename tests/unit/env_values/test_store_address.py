from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.env_values.store_address import StoreAddress, StoreKind

if TYPE_CHECKING:
    from pathlib import Path

SERVER, SENTINEL, CLUSTER = StoreKind.SERVER, StoreKind.SENTINEL, StoreKind.CLUSTER


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://store", StoreAddress(kind=SERVER, nodes=(("store", 6379),))),
        ("redis://[::1]:7/", StoreAddress(kind=SERVER, nodes=(("::1", 7),))),
        (
            "redis://me:p%40ss%2Fword@store:6380/2",
            StoreAddress(
                kind=SERVER, nodes=(("store", 6380),), db=2, username="me", password="p@ss/word"
            ),
        ),
        (
            "redis://store?db=3&username=me&password=secret",
            StoreAddress(
                kind=SERVER, nodes=(("store", 6379),), db=3, username="me", password="secret"
            ),
        ),
        ("unix:///run/redis.sock?db=1", StoreAddress(kind=SERVER, path="/run/redis.sock", db=1)),
        (
            "redis+sentinel://:secret@a:1,b/main/4?sentinel_username=s&sentinel_password=t",
            StoreAddress(
                kind=SENTINEL,
                nodes=(("a", 1), ("b", 26379)),
                service="main",
                db=4,
                password="secret",
                sentinel_username="s",
                sentinel_password="t",
            ),
        ),
        ("redis+cluster://a,[::1]:9", StoreAddress(kind=CLUSTER, nodes=(("a", 6379), ("::1", 9)))),
        ("redis+cluster://a/0", StoreAddress(kind=CLUSTER, nodes=(("a", 6379),))),
    ],
)
def test_every_kind_of_url_is_read(url: str, address: StoreAddress) -> None:
    assert StoreAddress.parse(url) == address


@pytest.mark.parametrize("scheme", ["rediss", "rediss+cluster"])
def test_tls_asks_for_a_certificate_that_is_trusted_and_bears_the_name(
    scheme: str, tmp_path: Path
) -> None:
    tls = StoreAddress.parse(f"{scheme}://store").tls
    assert tls == {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
    authority = tmp_path / "ca.pem"
    authority.touch()
    url = f"{scheme}://store?ssl_ca_certs={authority}&ssl_check_hostname=false"
    assert StoreAddress.parse(url).tls == {
        "ssl_ca_certs": str(authority),
        "ssl_cert_reqs": "required",
        "ssl_check_hostname": False,
    }


def test_tls_that_trusts_anybody_looks_at_no_name() -> None:
    tls = StoreAddress.parse("rediss://store?ssl_cert_reqs=none").tls
    assert tls == {"ssl_cert_reqs": "none", "ssl_check_hostname": False}


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("store:6379", "must be redis://host:port/db, rediss:// for TLS"),
        ("http://:secret@store", "must be redis://host:port/db"),
        ("redis://[secret", "is no URL"),
        ("redis://", "has no host; a password's / [?] # @ : are written as %2F"),
        ("redis://:sec/ret@store", "has no host; a password's"),
        ("redis://me:sec/ret@store", "has a port that is no number from 1 to 65535; a password's"),
        ("redis://:sec#ret@store", "has a # in it"),
        ("redis://store:0", "has a port"),
        ("redis://store:65536", "has a port"),
        ("redis://store:", "has a port"),
        ("redis://store/secret", "has a database that is no number"),
        ("redis://a,b", "has several hosts"),
        ("redis://store?secret=1", "has an option that is none of db, username"),
        ("unix://", "has no path"),
        ("unix://host/path", "has no path"),
        ("redis+sentinel://a,b", "has no service"),
        ("redis+sentinel://a,,b/main", "has no host"),
        ("redis+sentinel://a/main/secret", "has a database that is no number"),
        ("redis+cluster://a/1", "a cluster has only database 0"),
        ("redis://store?ssl_ca_certs=/secret", "has ssl_ca_certs, and no TLS without rediss"),
        ("rediss://store?ssl_ca_certs=/secret", "ssl_ca_certs, which is no file that can be read"),
        ("rediss://store?ssl_cert_reqs=secret", "ssl_cert_reqs that is none of required"),
        ("rediss://store?ssl_check_hostname=secret", "neither true nor false"),
    ],
)
def test_each_fault_is_one_line_that_tells_no_secret(url: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault) as raised:
        StoreAddress.parse(url)
    told = f"{raised.value}"
    assert "\n" not in told
    assert "sec" not in told.replace("secret=1", "")


def test_a_key_without_a_certificate_is_a_fault(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.touch()
    with pytest.raises(ValueError, match="has ssl_keyfile, and no ssl_certfile"):
        StoreAddress.parse(f"rediss://store?ssl_keyfile={key}")


def test_its_text_does_not_show_the_passwords() -> None:
    address = StoreAddress.parse("redis+sentinel://:secret@a/main?sentinel_password=hidden")
    assert "secret" not in f"{address}"
    assert "hidden" not in f"{address}"

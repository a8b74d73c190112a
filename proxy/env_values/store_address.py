"""Where the store is in which gateways share their limit, as its URL says.

    redis://[user:password@]host[:port][/db]                            rediss:// for TLS
    unix://[user:password@]/path[?db=0]
    redis+sentinel://[user:password@]host[:port],host[:port]/service[/db]
    redis+cluster://[user:password@]host[:port],host[:port]

A fault is told without a word of what was given: any part of a URL may be a part of its password
that was not written as it has to be.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Self
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_TLS_OPTIONS = (*_TLS_FILES, "ssl_cert_reqs", "ssl_check_hostname")
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")
_OPTIONS = ("db", "username", "password", *_TLS_OPTIONS, *_SENTINEL_OPTIONS)
_CERT_REQS = ("required", "optional", "none")
_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^:\[\]]+))(?P<port>:.*)?")
_HOSTS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<hosts>[^/?#]*)")
_ENCODED = "; a password's / ? # @ : are written as %2F %3F %23 %40 %3A"


class StoreKind(StrEnum):
    """How the server is found that takes the commands."""

    SERVER = "server"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


_SCHEMES = {
    "redis": (StoreKind.SERVER, False),
    "rediss": (StoreKind.SERVER, True),
    "unix": (StoreKind.SERVER, False),
    "redis+sentinel": (StoreKind.SENTINEL, False),
    "rediss+sentinel": (StoreKind.SENTINEL, True),
    "redis+cluster": (StoreKind.CLUSTER, False),
    "rediss+cluster": (StoreKind.CLUSTER, True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """`nodes`: the server, or those to ask for it; none for a socket, whose path is `path`. `tls`:
    its options, None without TLS. `service`: the name that sentinels know it by."""

    kind: StoreKind
    nodes: tuple[tuple[str, int], ...] = ()
    path: str = ""
    service: str = ""
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    tls: Mapping[str, str | bool] | None = None

    @classmethod
    def parse(cls, url: str) -> Self:
        """Raises ValueError with one line for the first fault."""
        parts = _split(url)
        kind, has_tls = _SCHEMES[parts.scheme]
        options = _options_of(parts.query)
        userinfo, _, hosts = parts.netloc.rpartition("@")
        username, _, password = userinfo.partition(":")
        path, is_socket = unquote(parts.path), parts.scheme == "unix"
        nodes = () if is_socket else _nodes(kind, hosts)
        service, db = _service_and_db(kind, "" if is_socket else path.strip("/"), options)
        return cls(
            kind=kind,
            nodes=nodes,
            path=_socket_path(path, hosts) if is_socket else "",
            service=service,
            db=db,
            username=unquote(username) or options.get("username"),
            password=unquote(password) or options.get("password"),
            sentinel_username=options.get("sentinel_username"),
            sentinel_password=options.get("sentinel_password"),
            tls=_tls(options, has_tls=has_tls),
        )


def _split(url: str) -> SplitResult:
    # urlsplit knows of one host: from Python 3.14 on it refuses several if one is in brackets.
    found = _HOSTS.match(url)
    hosts = found["hosts"] if found else ""
    if hosts.count("[") != hosts.count("]"):
        raise ValueError("is no URL")
    parts = urlsplit(f"{found['scheme']}{url[found.end() :]}" if found else url)
    parts = parts._replace(netloc=hosts)
    if parts.scheme not in _SCHEMES:
        raise ValueError(
            "must be redis://host:port/db, rediss:// for TLS, unix:///path, "
            "redis+sentinel://host:port,host:port/service or redis+cluster://host:port,host:port"
        )
    if parts.fragment or "#" in url:
        raise ValueError("has a # in it, which has to be written as %23")
    return parts


def _options_of(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    if not options.keys() <= {*_OPTIONS}:
        raise ValueError(f"has an option that is none of {', '.join(_OPTIONS)}")
    return options


def _nodes(kind: StoreKind, hosts: str) -> tuple[tuple[str, int], ...]:
    usual = 26379 if kind is StoreKind.SENTINEL else 6379
    nodes = tuple(_node(one, usual) for one in hosts.split(","))
    if kind is StoreKind.SERVER and len(nodes) > 1:
        raise ValueError("has several hosts, which redis+sentinel:// and redis+cluster:// can have")
    return nodes


def _node(text: str, usual_port: int) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    if found is None:
        raise ValueError(f"has no host{_ENCODED}")
    port = usual_port if found["port"] is None else _port(found["port"][1:])
    return found["six"] or unquote(found["host"]), port


def _port(text: str) -> int:
    fault = f"has a port that is no number from 1 to 65535{_ENCODED}"
    return _number(text, fault, lambda number: 0 < number < 65536)


def _number(text: str, fault: str, is_good: Callable[[int], bool]) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and is_good(int(text))):
        raise ValueError(fault)
    return int(text)


def _socket_path(path: str, hosts: str) -> str:
    if hosts or len(path) < 2:
        raise ValueError("has no path, as in unix:///run/redis.sock")
    return path


def _service_and_db(kind: StoreKind, path: str, options: Mapping[str, str]) -> tuple[str, int]:
    service = ""
    if kind is StoreKind.SENTINEL:
        service, _, path = path.partition("/")
        if not service:
            raise ValueError("has no service, as in redis+sentinel://host:port,host:port/service")
    text = path or options.get("db", "0")
    db = _number(text, "has a database that is no number", lambda _: True)
    if kind is StoreKind.CLUSTER and db:
        raise ValueError("has a database, and a cluster has only database 0")
    return service, db


def _tls(options: Mapping[str, str], *, has_tls: bool) -> Mapping[str, str | bool] | None:
    given = {name: value for name, value in options.items() if name in _TLS_OPTIONS}
    if not has_tls:
        if given:
            raise ValueError(f"has {', '.join(sorted(given))}, and no TLS without rediss")
        return None
    for name in _TLS_FILES:
        if name in given and not _is_readable(given[name]):
            raise ValueError(f"has {name}, which is no file that can be read")
    if "ssl_keyfile" in given and "ssl_certfile" not in given:
        raise ValueError("has ssl_keyfile, and no ssl_certfile")
    reqs = given.setdefault("ssl_cert_reqs", "required")
    if reqs not in _CERT_REQS:
        raise ValueError(f"has ssl_cert_reqs that is none of {', '.join(_CERT_REQS)}")
    names = given.pop("ssl_check_hostname", f"{reqs != 'none'}").lower()
    if names not in _TRUTHS:
        raise ValueError("has ssl_check_hostname that is neither true nor false")
    # Said always: older clients do not look at the name unless they are told to.
    return {**given, "ssl_check_hostname": _TRUTHS[names] and reqs != "none"}


def _is_readable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.R_OK)  # noqa: PTH113 - any text will do

"""Where the engine is: a base URL, taken apart once at start."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from ipaddress import IPv6Address
from typing import Self
from urllib.parse import SplitResult, urlsplit

from proxy.env_values.urls import without_secrets

_DEFAULT_PORTS = {"http": 80, "https": 443}
# Underscores are no host names by the book, but container networks hand them out.
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,63}")
_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%/-]*")
_BLANK_OR_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_API_ROOT = "/v1"


@dataclass(frozen=True, slots=True)
class UpstreamAddress:
    """One engine's address. `host` is bare (an IPv6 address without brackets), `prefix` is the
    path in front of the engine's own routes ("" when it is served at the root), `authority` is
    the Host header: the port is left out when the scheme implies it.

    `ip` is where to connect to in place of looking `host` up, which stays the name in the Host
    header and the one that a certificate must have. An engine that is one of several behind the
    same URL has the `ip` in its name.
    """

    scheme: str
    host: str
    port: int
    prefix: bytes
    authority: bytes
    ip: str = ""
    is_one_of_several: bool = False

    @classmethod
    def parse(cls, url: str) -> Self:
        """Reads `http://host`, `https://host:8443/v1`, `http://[::1]:8000/engines/a/v1/` and so on.

        A trailing slash and a trailing `/v1` say nothing: requests name the full path themselves.
        Raises ValueError with one line that names the URL (without credentials) and the rule.
        """
        try:
            return cls._from_parts(_split(url))
        except ValueError as error:
            raise ValueError(f"{without_secrets(url)!r} {error}") from None

    @classmethod
    def _from_parts(cls, parts: SplitResult) -> Self:
        host = _host(parts)
        port = _port(parts)
        shown = f"[{host}]" if ":" in host else host
        if port != _DEFAULT_PORTS[parts.scheme]:
            shown = f"{shown}:{port}"
        return cls(parts.scheme, host, port, _prefix(parts.path), shown.encode())

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    @property
    def connects_to(self) -> str:
        """What a socket is opened to: an IP address, or a name that is looked up then."""
        return self.ip or self.host

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority.decode()}{self.prefix.decode()}"

    @property
    def peer(self) -> str:
        """Who it is that we talk to, for messages."""
        return self.authority.decode() + (f"#{self.ip}" if self.ip else "")

    def at(self, ip: str, *, one_of_several: bool = False) -> Self:
        """The same URL, served at this IP address."""
        return replace(self, ip=ip, is_one_of_several=one_of_several)

    def target(self, raw_path: bytes, query: bytes = b"") -> bytes:
        """The request target for a path as the client sent it; nothing in it is normalized."""
        path = self.prefix + raw_path
        return b"%b?%b" % (path, query) if query else path

    def __str__(self) -> str:
        """The engine's name: its URL, and where that is not enough, which of them it is. No URL
        has a # (parse() refuses it), so the name cannot be another's."""
        return f"{self.url}#{self.ip}" if self.is_one_of_several else self.url


def _split(url: str) -> SplitResult:
    if _BLANK_OR_CONTROL.search(url):
        raise ValueError("contains a blank or a control character")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ValueError(f"is not a URL: {error}") from None
    if parts.scheme not in _DEFAULT_PORTS or not url[len(parts.scheme) :].startswith("://"):
        raise ValueError("must start with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("must not carry a user name or password; set the upstream API key instead")
    if "?" in url or "#" in url:
        raise ValueError("must not have a query or a fragment")
    return parts


def _host(parts: SplitResult) -> str:
    host = parts.hostname
    if not host:
        raise ValueError("names no host")
    if parts.netloc.startswith("["):
        return _ipv6(host)
    try:
        host = host.encode("idna").decode()
    except UnicodeError:
        raise ValueError(f"has a host name that cannot be looked up: {host!r}") from None
    labels = host.removesuffix(".").split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError(f"has a host name that cannot be looked up: {host!r}")
    return host


def _ipv6(host: str) -> str:
    try:
        address = IPv6Address(host)
    except ValueError:
        raise ValueError(f"has an invalid IPv6 address: {host!r}") from None
    if address.scope_id is not None:
        raise ValueError(f"has an IPv6 zone, which no Host header can carry: {host!r}")
    return host


def _port(parts: SplitResult) -> int:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError("has a port that is not in 1 to 65535")
    return port or _DEFAULT_PORTS[parts.scheme]


def _prefix(path: str) -> bytes:
    if not _PATH.fullmatch(path):
        raise ValueError("has a path with characters that must be percent-encoded")
    segments = path.rstrip("/").split("/")
    if {".", ".."} & set(segments) or "" in segments[1:]:
        raise ValueError("has a path with empty, '.' or '..' segments")
    return "/".join(segments).removesuffix(_API_ROOT).encode()

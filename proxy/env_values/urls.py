"""How engine base URLs are written in a setting."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def parse_base_urls(value: object) -> tuple[str, ...]:
    """Base URLs from a comma-separated text, as written but for blanks around them.

    Raises ValueError with the rule that was broken; it quotes no URL, since one may hold a
    password.
    """
    written = value if isinstance(value, str) else ",".join(map(str, _listed(value)))
    urls = tuple(url.strip() for url in written.split(",") if url.strip())
    if not urls:
        raise ValueError("must be a base URL such as http://127.0.0.1:8000")
    for url in urls:
        _check(url)
    if len(urls) > 1:
        raise ValueError(
            f"names {len(urls)} engines, and this version takes exactly one; "
            "several upstreams arrive in a later version"
        )
    return urls


def without_password(text: str) -> str:
    """The text with whatever may be a user name and password in a URL blotted out."""
    scheme, found, rest = text.partition("://")
    if not found or "@" not in rest:
        return text
    return f"{scheme}://***@{rest.rpartition('@')[2]}"


def _listed(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _check(url: str) -> None:
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("must be printable ASCII without blanks")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("must be a URL with a port from 1 to 65535, or none") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must start with http:// or https:// and name a host")
    if port == 0:
        raise ValueError("must be a URL with a port from 1 to 65535, or none")
    _refuse_extras(parts)


def _refuse_extras(parts: SplitResult) -> None:
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a user name or password; use SLUICE_UPSTREAM_API_KEY")
    if parts.query or parts.fragment:
        raise ValueError("must be a base URL, without ? and #")

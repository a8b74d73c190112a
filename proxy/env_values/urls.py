"""How a list of engine base URLs is written in a setting. proxy/upstream/address.py judges each."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def split_urls(value: object) -> tuple[str, ...]:
    """The URLs of a comma-separated text, as written but for blanks around them.

    Raises ValueError when there is none.
    """
    items = value if isinstance(value, (list, tuple)) else (value,)
    urls = tuple(url.strip() for item in items for url in str(item).split(",") if url.strip())
    if not urls:
        raise ValueError("must be a base URL such as http://127.0.0.1:8000")
    return urls


def without_secrets(text: str) -> str:
    """The text, with what may be a password or a key in a URL blotted out, also where the URL is
    not written as it has to be: a password without a scheme in front is one all the same."""
    secret, at, shown = text.rpartition("@")
    scheme = _SCHEME.match(secret) if at else None
    shown, query, _ = shown.partition("?")
    return (
        f"{scheme[0] if scheme else ''}{'***@' if secret else ''}{shown}{'?***' if query else ''}"
    )

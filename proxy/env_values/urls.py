"""How a list of engine base URLs is written in a setting. proxy/upstream/address.py judges each."""

from __future__ import annotations


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
    """The text, with what may be a password or a key in a URL blotted out."""
    scheme, found, rest = text.partition("://")
    if not found:
        return text
    rest, query, _ = rest.partition("?")
    _, user, host = rest.rpartition("@")
    return f"{scheme}://{'***@' if user else ''}{host}{'?***' if query else ''}"

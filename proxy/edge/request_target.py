"""Takes a request's target apart, as it was sent."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

import httptools

from proxy.edge.unreadable import UnreadableHeadError


class Target(NamedTuple):
    """`raw_path` and `query` as they were sent, `path` decoded."""

    raw_path: bytes
    path: str
    query: bytes


def take_apart(url: bytes) -> Target:
    """By hand where it is a path, which is all that clients send but those of a forward proxy."""
    if url.startswith(b"/"):
        raw_path, _, query = url.partition(b"?")
    else:  # absolute form; or no path at all
        try:
            parsed = httptools.parse_url(url)
        except httptools.HttpParserInvalidURLError:
            raise UnreadableHeadError(400, "The request target is not a path.") from None
        raw_path, query = parsed.path or b"", parsed.query or b""
    path = raw_path.decode("ascii")
    return Target(raw_path, unquote(path) if "%" in path else path, query)

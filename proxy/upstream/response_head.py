"""What a response head must be, beyond what an HTTP parser checks by itself."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from proxy.env_values.plain_numbers import content_length

if TYPE_CHECKING:
    from proxy.upstream.port import RawHeaders

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 256
_VERSIONS = frozenset({"1.1", "1.0"})
_BODILESS = frozenset({204, 304})
_CONTENT_LENGTH = b"content-length"
_TRANSFER_ENCODING = b"transfer-encoding"


def violation_of_head(version: str, status: int, fields: RawHeaders) -> str | None:
    """What is wrong with the final head of a response, for an error message; None when nothing is.

    The size is not judged here: see `head_size`.
    """
    if version not in _VERSIONS:
        return f"it answered in HTTP/{version}"
    if not 200 <= status <= 599:  # HTTP has no others, and a client could make nothing of them
        return f"it answered with status {status}, which ends no exchange"
    if len(fields) > MAX_HEADERS:
        return f"its response head has more than {MAX_HEADERS} fields"
    codings = []
    has_length = False
    for name, value in fields:
        # Lengths are compared first: this runs on every answer, and settles nearly every field.
        if len(name) == 14 and name.lower() == _CONTENT_LENGTH:
            has_length = True
        elif len(name) == 17 and name.lower() == _TRANSFER_ENCODING:
            codings.append(value.lower())
    if codings and codings != [b"chunked"]:
        return "its response has a transfer coding other than 'chunked'"
    if codings and has_length:
        return "its response has both a Content-Length and a Transfer-Encoding"
    return None


def head_size(fields: RawHeaders) -> int:
    """Bytes that the fields took on the wire, blanks around the values aside."""
    return sum(len(name) + len(value) + 4 for name, value in fields)


def is_close_delimited(status: int, fields: RawHeaders) -> bool:
    """Whether the body ends with the connection, nothing else saying where it does."""
    names = {name.lower() for name, _ in fields}
    return status not in _BODILESS and not names & {_CONTENT_LENGTH, _TRANSFER_ENCODING}


def announced_bytes(method: str, status: int, fields: RawHeaders) -> float:
    """How long the body will be, by a head without a violation; inf where only its end tells."""
    if method == "HEAD" or status in _BODILESS:
        return 0
    lengths = [content_length(value) for name, value in fields if name.lower() == _CONTENT_LENGTH]
    return lengths[0] if lengths else inf

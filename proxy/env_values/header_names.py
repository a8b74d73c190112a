"""Names of headers that a setting may choose."""

from __future__ import annotations

import re

# RFC 9110, section 5.6.2: a token.
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]{1,64}")

# The gateway reads these itself, or they belong to one connection and not to the request: with
# another meaning on top, a request would be framed, let in or bounded by what names its tenant.
RESERVED = frozenset(
    {
        "access-control-request-method",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-api-key",
        "x-request-id",
        "x-sluice-queue-timeout",
        "x-sluice-reason",
        "x-stainless-read-timeout",
        "x-stainless-retry-count",
        "x-stainless-timeout",
    }
)


def header_name(value: str | None) -> str | None:
    """The name in lower case. Raises ValueError for what is no name, or has a meaning already."""
    if value is None:
        return None
    name = value.lower()
    if not _TOKEN.fullmatch(name):
        raise ValueError("must be a header name: at most 64 letters, digits and dashes, no blanks")
    if name in RESERVED:
        raise ValueError("must be a header of its own; this one already has a meaning here")
    return name

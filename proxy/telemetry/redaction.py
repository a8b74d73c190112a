"""Takes credentials out of log text: the last line of defence, behind not logging them at all.

Sluice's own log calls never carry a header or a query. Exceptions and libraries may.
"""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"

_VALUE: Final = r"[^\s&'\",;)\]}]+"
_CREDENTIALS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # Authorization: Bearer abc
        rf"(?P<keep>\b(?:bearer|basic)\s+){_VALUE}",
        # Authorization: abc, x-api-key: abc
        rf"(?P<keep>\b(?:authorization|[\w-]*api-key)\s*:\s*)(?!bearer\b|basic\b){_VALUE}",
        # ?key=abc, api_key='abc'
        rf"(?P<keep>(?:key|token|secret|password)\s*=\s*b?['\"]?){_VALUE}",
        # the same two in the repr of a header pair, and as a member of a JSON object
        r"(?P<keep>(?:authorization|key|token|secret|password)['\"]\s*[,:]\s*b?['\"])[^'\"]+",
        # https://user:password@host
        r"(?P<keep>://)[^/@\s'\"]+(?=@)",
        # keys in the form that OpenAI made common
        r"(?P<keep>\bsk-)[\w-]{8,}",
    )
)
# No pattern matches without one of these in lower case. To look for them takes a microsecond, to
# try all patterns forty.
_WORDS: Final = ("key", "token", "secret", "password", "authorization", "bearer", "basic")
_TELLTALES: Final = (*_WORDS, "://", "sk-")


def redact(text: str) -> str:
    """`text` with the value of whatever looks like a credential replaced by `***`."""
    lowered = text.lower()
    if not any(telltale in lowered for telltale in _TELLTALES):
        return text
    for pattern in _CREDENTIALS:
        text = pattern.sub(rf"\g<keep>{MASK}", text)
    return text

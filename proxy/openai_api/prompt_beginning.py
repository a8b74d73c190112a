"""The first bytes of a prompt, by which requests that begin alike are told."""

from __future__ import annotations

import re

# Read with a pattern, not with a parser: a name that stands inside of a text gives another
# beginning, which is as good as any as long as it is always the same.
_PROMPT = re.compile(rb'"(?:messages|prompt|input|system|instructions|token_ids|texts)"\s*:\s*')
# Where the fields of a prompt have other names the end of a long body is not waited for: 64 MiB may
# hold up the event loop for a third of a second.
_SEARCHED_BYTES = 65_536


def prompt_beginning(body: bytes | bytearray, most: int) -> bytes:
    """At most `most` bytes of JSON from where the prompt begins; of a body that is something else,
    its own first bytes."""
    found = _PROMPT.search(body, 0, _SEARCHED_BYTES)
    start = found.end() if found else 0
    return bytes(body[start : start + most])

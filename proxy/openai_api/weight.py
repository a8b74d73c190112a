"""Refuses a large body that would be many small values for whoever decodes it.

Decoding makes an object for each key and each item at once, and nothing else runs meanwhile: 60 MiB
of empty strings took two seconds and 1.3 GiB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.openai_api.request_fields import UnreadableBodyError

if TYPE_CHECKING:
    from proxy.openai_api.blocks import Blocks
    from proxy.openai_api.steps import Steps

MOST_MARKS = 2_000_000
"""Quotes and opening brackets. A million strings, or as many sequences as are ever counted."""

_WINDOW = 64 * 1024


def refuse_what_is_too_much(body: Blocks) -> Steps[None]:
    marks = 0
    for start in range(0, len(body), _WINDOW):
        yield
        window = body[start : start + _WINDOW]
        marks += window.count(b'"') + window.count(b"[") + window.count(b"{")
        if marks > MOST_MARKS:
            raise UnreadableBodyError(
                "the request body has too many values to be read: more than "
                f"{MOST_MARKS:,} quotes and brackets"
            )

"""Which requests are best served by the same engine: a number for each request, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.admission.placement.bounded_ring import ring_position
from proxy.openai_api.prompt_beginning import prompt_beginning

if TYPE_CHECKING:
    from proxy.edge.request_headers import RequestHeaders
    from proxy.openai_api.blocks import Blocks

# How far the beginning of a prompt is looked for in a large body.
_SEARCHED_BYTES = 64 * 1024


class Affinity(Protocol):
    def __call__(self, headers: RequestHeaders, body: bytes | Blocks, /) -> int | None:
        """The same for requests that belong together; None for one that belongs to no other."""


def no_affinity(_headers: RequestHeaders, _body: bytes | Blocks) -> None:
    """Every engine will do."""


def session_affinity(headers: RequestHeaders, _body: bytes | Blocks) -> int | None:
    """By the header that names the session."""
    return ring_position(headers.session) if headers.session else None


class PrefixAffinity:
    """By the first `most` bytes of the prompt."""

    def __init__(self, most: int) -> None:
        self._most = most

    def __call__(self, _headers: RequestHeaders, body: bytes | Blocks, /) -> int | None:
        if not body:
            return None
        if not isinstance(body, bytes):
            body = body[: _SEARCHED_BYTES + self._most]
        return ring_position(prompt_beginning(body, self._most))

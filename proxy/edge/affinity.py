"""Which requests are best served by the same engine: a number for each request, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.admission.placement.bounded_ring import ring_position
from proxy.openai_api.prompt_beginning import prompt_beginning

if TYPE_CHECKING:
    from proxy.edge.request_headers import RequestHeaders


class Affinity(Protocol):
    def __call__(self, headers: RequestHeaders, body: bytes | bytearray, /) -> int | None:
        """The same for requests that belong together; None for one that belongs to no other."""


def no_affinity(_headers: RequestHeaders, _body: bytes | bytearray) -> None:
    """Every engine will do."""


def session_affinity(headers: RequestHeaders, _body: bytes | bytearray) -> int | None:
    """By the header that names the session."""
    return ring_position(headers.session) if headers.session else None


class PrefixAffinity:
    """By the first `most` bytes of the prompt."""

    def __init__(self, most: int) -> None:
        self._most = most

    def __call__(self, _headers: RequestHeaders, body: bytes | bytearray, /) -> int | None:
        return ring_position(prompt_beginning(body, self._most)) if body else None

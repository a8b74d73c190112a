"""Which of Prometheus's formats a metrics page is written in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from prometheus_client.exposition import choose_encoder

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

# The library compares versions with numbers, and fails over one that has none.
_STRANGE_VERSION: Final = re.compile(r"version=(?!\d{1,4}(?:\.\d{1,4})*\s*(?:[;,]|$))")


def written(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """The page and its content type: OpenMetrics if `accept`, a header's value, asks for it. Plain
    text if that asks for a version that is none."""
    encode, content_type = choose_encoder("" if _STRANGE_VERSION.search(accept) else accept)
    return encode(registry), content_type

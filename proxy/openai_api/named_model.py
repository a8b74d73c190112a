"""Which model a request names, where nothing else of it matters: routes that take no seats."""

from __future__ import annotations

from urllib.parse import unquote

from proxy.openai_api.counting import text
from proxy.openai_api.request_fields import UnreadableBodyError, read_fields


def model_in_body(body: bytes) -> str | None:
    """The `model` of a JSON object; None when there is none, or the body is something else."""
    if not body:
        return None
    try:
        return text(read_fields(body).model)
    except UnreadableBodyError:
        return None


def model_in_path(raw_path: bytes, prefix: bytes) -> str | None:
    """What follows `prefix`, decoded as the engine decodes it; None for another path."""
    if not raw_path.startswith(prefix):
        return None
    return unquote(raw_path[len(prefix) :].decode("latin-1"), errors="replace") or None

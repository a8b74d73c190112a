"""Which model a request names, where nothing else of it matters: routes that take no seats."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from proxy.openai_api.abridged import abridged_fields
from proxy.openai_api.counting import text
from proxy.openai_api.request_fields import UnreadableBodyError, read_fields

if TYPE_CHECKING:
    from proxy.openai_api.blocks import Blocks
    from proxy.openai_api.steps import Steps


class Named(NamedTuple):
    """What a body names: no model, if it is None."""

    model: str | None


def model_in_body(body: bytes) -> str | None:
    """The `model` of a JSON object; None when there is none, or the body is something else."""
    if not body:
        return None
    try:
        return text(read_fields(body).model)
    except UnreadableBodyError:
        return None


def model_in_steps(body: Blocks) -> Steps[Named | None]:
    """As model_in_body(), for a large body. None when that would take one long step after all."""
    found = yield from abridged_fields(body)
    if found is None:
        return None
    abridged, fields = found
    return None if abridged.is_cut(fields.model) else Named(text(fields.model))


def model_in_path(raw_path: bytes, prefix: bytes) -> str | None:
    """What follows `prefix`, decoded as the engine decodes it; None for another path."""
    if not raw_path.startswith(prefix):
        return None
    return unquote(raw_path[len(prefix) :].decode("latin-1"), errors="replace") or None

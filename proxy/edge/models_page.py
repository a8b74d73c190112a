"""GET /v1/models where engines serve different models: one page of all that can be asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from proxy.vllm.served_models import ServedModel

    Served = Sequence[tuple[ServedModel, ...]]


class ModelsPage:
    """Made again only when an engine serves something else: it may be long, and is asked for by
    whoever likes.

    `served` tells of each engine, in an order that does not change by itself, what it serves;
    nothing of one that has not told.
    """

    def __init__(self, served: Callable[[], Served]) -> None:
        self._served = served
        self._made_for: Served = ()
        self._page: bytes | None = None

    def page(self) -> bytes | None:
        """None while all serve the same, as far as is known: then any engine's own page is it."""
        served = self._served()
        if served != self._made_for:
            self._made_for = served
            self._page = merged(served) if differ(served) else None
        return self._page


def differ(served: Served) -> bool:
    """Whether not all of those that have told serve the same models."""
    return len({frozenset(model.id for model in models) for models in served if models}) > 1


def merged(served: Served) -> bytes:
    """One card for each model: the engine's own that comes first, as it has told it."""
    cards: dict[str, Mapping[str, Any]] = {}
    for models in served:
        for model in models:
            cards.setdefault(model.id, model.card)
    page = {"object": "list", "data": list(cards.values())}
    return json.dumps(page, separators=(",", ":")).encode()

"""What an engine says at /v1/models."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from proxy.vllm.probe import NoAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from proxy.vllm.probe import Answer

MAX_MODELS_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServedModel:
    """`max_model_len` in tokens; None if the engine does not tell, as others than vLLM do not.
    `card` is all that the engine says of it."""

    id: str
    max_model_len: int | None
    card: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


def served_models(answer: Answer | NoAnswer) -> tuple[ServedModel, ...]:
    """Empty when the answer tells of none, or is no such answer. Never raises."""
    if isinstance(answer, NoAnswer) or answer.status != 200:
        return ()
    try:
        page = json.loads(answer.body or b"")
    except (ValueError, RecursionError):
        return ()
    cards = page.get("data") if isinstance(page, dict) else None
    if not isinstance(cards, list):
        return ()
    return tuple(
        ServedModel(card["id"], _length(card.get("max_model_len")), card)
        for card in cards
        if isinstance(card, dict) and isinstance(card.get("id"), str)
    )


def longest_model_len(models: Iterable[ServedModel]) -> int | None:
    """Tokens of the longest request that any of them takes; None if none tells."""
    return max((model.max_model_len for model in models if model.max_model_len), default=None)


def _length(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

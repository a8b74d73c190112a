"""What differs between engines that are to be used as one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.vllm.served_models import longest_model_len

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy.vllm.inspection import EngineReport

# Two cards of one kind never leave quite the same number of blocks.
_ALIKE = 0.95


def engine_differences(engines: Mapping[str, EngineReport]) -> Iterator[str]:
    """One line for each difference that is worth a look; `engines` by URL."""
    by_models: dict[frozenset[str], dict[str, EngineReport]] = {}
    for url, engine in engines.items():
        if engine.models:
            names = frozenset(model.id for model in engine.models)
            by_models.setdefault(names, {})[url] = engine
    if len(by_models) > 1:
        served = "; ".join(
            f"{', '.join(sorted(names))} at {', '.join(same)}" for names, same in by_models.items()
        )
        yield (
            f"the engines serve different models ({served}): those that serve the same share a "
            f"queue, and requests go where their model is"
        )
    for same in by_models.values():
        yield from _of_one_model(same)


def _of_one_model(engines: Mapping[str, EngineReport]) -> Iterator[str]:
    lengths = _known({url: longest_model_len(one.models) for url, one in engines.items()})
    if len(set(lengths.values())) > 1:
        yield (
            f"the longest request that they take differs ({_listed(lengths)}): whether a long one "
            f"is served depends on where it goes"
        )
    caches = _known({url: one.kv_cache_tokens for url, one in engines.items()})
    if caches and min(caches.values()) < _ALIKE * max(caches.values()):
        yield (
            f"the KV caches differ ({_listed(caches)}) and SLUICE_MAX_IN_FLIGHT is the same for "
            f"each: choose it for the smallest, or set SLUICE_MAX_KV_TOKENS=auto"
        )


def _known(figures: Mapping[str, int | None]) -> dict[str, int]:
    return {url: figure for url, figure in figures.items() if figure is not None}


def _listed(figures: Mapping[str, int]) -> str:
    return ", ".join(f"{figure:,} tokens at {url}" for url, figure in figures.items())

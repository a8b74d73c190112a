"""The limits that are in force for one engine: what is set, and what the engine tells of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.vllm.binding_limit import Limits, auto_kv_tokens, full_length_requests

if TYPE_CHECKING:
    from proxy.settings import Settings

# Seats are few because the GPU is; what takes none is quick, and its clients come in crowds: fifty
# of them met a bound of 16.
_FEWEST_OPEN = 128


def effective_limits(
    settings: Settings,
    *,
    kv_cache_tokens: int | None,
    model_len: int | None,
    max_concurrency: float | None,
    engine_answers: bool = True,
) -> Limits:
    """None is what the engine does not tell, or has not told yet. `model_len`: tokens of the
    longest request that any served model takes; `max_concurrency`: how many such its cache holds.
    """
    return Limits(
        max_in_flight=settings.max_in_flight,
        max_num_seqs=settings.max_num_seqs,
        max_kv_tokens=kv_budget(settings, kv_cache_tokens),
        max_kv_tokens_is_auto=settings.max_kv_tokens == "auto",
        max_prefill_tokens=settings.max_prefill_tokens,
        tenant_max_in_flight=settings.tenant_max_in_flight,
        tenants=_tenants(settings),
        upstreams=len(settings.upstream_urls),
        kv_cache_tokens=kv_cache_tokens,
        full_length_requests=full_length_requests(kv_cache_tokens, model_len, max_concurrency),
        model_len=model_len,
        engine_answers=engine_answers,
    )


def kv_budget(settings: Settings, kv_cache_tokens: int | None) -> int | None:
    """SLUICE_MAX_KV_TOKENS in tokens; None when it is off, or `auto` and the size is not known."""
    if settings.max_kv_tokens != "auto":
        return settings.max_kv_tokens
    return auto_kv_tokens(kv_cache_tokens, settings.headroom) if kv_cache_tokens else None


def budgets_of_a_worker(
    settings: Settings, kv_cache_tokens: int | None
) -> tuple[int | None, int | None]:
    """Its part of SLUICE_MAX_PREFILL_TOKENS and of kv_budget(), for one engine."""
    prefill, kv = settings.max_prefill_tokens, kv_budget(settings, kv_cache_tokens)
    return prefill and settings.of_a_worker(prefill), kv and settings.of_a_worker(kv)


def bodies_of_a_worker(settings: Settings, engines: int) -> int:
    """How many it may hold in front of so many engines: one for each seat and each place."""
    return settings.max_in_flight * engines + settings.places(engines)


def open_requests_of_a_worker(settings: Settings) -> int:
    """How many that take no seat it may have at an engine at once: as many as others."""
    return max(_FEWEST_OPEN, settings.max_in_flight)


def _tenants(settings: Settings) -> int | None:
    """As many as there are client keys; nobody can tell how many a header will name."""
    return len(settings.client_keys) or None if settings.tenant_header is None else None

"""Which limit is reached first as load rises, and which limits are set to no effect. Pure.

Every limit is turned into the number of seats in one engine at which it is reached:

    max_in_flight     M
    kv_tokens         ours: K / r    the engine's own: E / t, or C while nothing was observed
    prefill_tokens    F / p
    tenant            T n / U

M, K, F, T: the limits; E: tokens of the engine's KV cache, which holds C requests of full length.
Per seat: t: tokens at a request's end, as answers told; r: KV tokens charged; p: prompt tokens
before the first byte, both as in flight now. n: tenants that send; U: engines, among which a
tenant's seats are spread. The smallest number binds first. A limit whose number is not known takes
no part: what was not seen is not guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# vLLM's block of the KV cache on GPUs, in tokens. A sequence never takes less.
KV_BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is set here, and what the engine can, for one engine. None: not set, or not known.

    `kv_cache_tokens`, `full_length_requests` (how many requests of the model's full length the KV
    cache holds), `model_len` and `max_num_seqs` are the engine's. `max_kv_tokens` is a number, as
    it comes out of `auto`. `tenants` is how many tenants there can be.
    """

    max_in_flight: int
    max_num_seqs: int | None = None
    max_kv_tokens: int | None = None
    max_kv_tokens_is_auto: bool = False
    max_prefill_tokens: int | None = None
    tenant_max_in_flight: int | None = None
    tenants: int | None = None
    upstreams: int = 1
    kv_cache_tokens: int | None = None
    full_length_requests: float | None = None
    model_len: int | None = None
    engine_answers: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """What one engine holds now, and what its requests were like. None: not seen yet.

    `in_flight` counts seats; `kv_tokens` and `prefill_tokens` are what is charged for them.
    `tokens_per_seat` is the prompt and output of a sequence at its end, on average. `tenants` is
    how many have requests in flight or waiting.
    """

    in_flight: int = 0
    kv_tokens: int = 0
    prefill_tokens: int = 0
    tokens_per_seat: float | None = None
    tenants: int | None = None


@dataclass(frozen=True, slots=True)
class BindingLimit:
    """`which`: max_in_flight, kv_tokens, prefill_tokens or tenant. `why` is one sentence."""

    which: str
    why: str


NOTHING_SEEN = Occupancy()


def auto_kv_tokens(kv_cache_tokens: int, headroom: float | Decimal) -> int:
    """What SLUICE_MAX_KV_TOKENS=auto stands for, once the engine has told the size of its cache."""
    return max(1, int(kv_cache_tokens * Decimal(str(headroom))))


def full_length_requests(
    kv_cache_tokens: int | None, model_len: int | None, told: float | None
) -> float | None:
    """How many requests of full length the KV cache holds: as the engine tells it (not every
    layer of every model keeps all tokens), else by division."""
    if told:
        return told
    return kv_cache_tokens / model_len if kv_cache_tokens and model_len else None


def binding_limit(limits: Limits, seen: Occupancy = NOTHING_SEEN) -> BindingLimit:
    seats = limits.max_in_flight
    if seen.in_flight >= seats:
        return BindingLimit("max_in_flight", f"all {seats} seats are taken")
    first = min(_others(limits, seen), key=lambda reach: reach.seats, default=None)
    if first is None or first.seats >= seats:
        return BindingLimit("max_in_flight", _seats_first(limits, seen, first))
    return BindingLimit(first.which, f"{first.why}, fewer than {seats} seats{first.until}")


@dataclass(frozen=True, slots=True)
class _Reach:
    """A limit that is reached at so many seats. `until` says what would change that."""

    seats: float
    which: str
    why: str
    until: str = ""


def _others(limits: Limits, seen: Occupancy) -> Iterator[_Reach]:
    yield from _own_kv(limits, seen)
    yield from _engine_kv(limits, seen)
    yield from _prefill(limits, seen)
    yield from _tenant(limits, seen)


def _own_kv(limits: Limits, seen: Occupancy) -> Iterator[_Reach]:
    budget = limits.max_kv_tokens
    if budget is None:
        return
    if seen.in_flight and seen.kv_tokens:
        each = seen.kv_tokens / seen.in_flight
        yield _Reach(
            budget / each,
            "kv_tokens",
            f"SLUICE_MAX_KV_TOKENS={budget} is reached at {budget / each:,.1f} requests of the "
            f"{each:,.0f} tokens that are set aside for each one now",
        )
    elif limits.model_len:
        held = budget / limits.model_len
        yield _Reach(
            held,
            "kv_tokens",
            f"SLUICE_MAX_KV_TOKENS={budget} holds {held:,.1f} requests of full length",
            _turning_point(budget, limits.max_in_flight),
        )


def _engine_kv(limits: Limits, seen: Occupancy) -> Iterator[_Reach]:
    tokens, full_length = limits.kv_cache_tokens, limits.full_length_requests
    if not tokens:
        return
    if seen.tokens_per_seat:
        held = tokens / seen.tokens_per_seat
        yield _Reach(
            held,
            "kv_tokens",
            f"the KV cache ({tokens:,} tokens) holds {held:,.1f} requests of the "
            f"{seen.tokens_per_seat:,.0f} tokens that they have on average",
        )
    elif full_length:
        yield _Reach(
            full_length,
            "kv_tokens",
            f"the KV cache ({tokens:,} tokens) holds {full_length:,.1f} requests of full length",
            _turning_point(tokens, limits.max_in_flight),
        )


def _prefill(limits: Limits, seen: Occupancy) -> Iterator[_Reach]:
    budget = limits.max_prefill_tokens
    if budget is None or not seen.in_flight or not seen.prefill_tokens:
        return
    each = seen.prefill_tokens / seen.in_flight
    yield _Reach(
        budget / each,
        "prefill_tokens",
        f"SLUICE_MAX_PREFILL_TOKENS={budget} is reached at {budget / each:,.1f} requests with the "
        f"{each:,.0f} prompt tokens for each one that wait for their first byte now",
    )


def _tenant(limits: Limits, seen: Occupancy) -> Iterator[_Reach]:
    cap, tenants = limits.tenant_max_in_flight, seen.tenants
    if cap is None or not tenants:
        return
    sending = "the one tenant that sends" if tenants == 1 else f"each of {tenants} tenants"
    yield _Reach(
        cap * tenants / limits.upstreams,
        "tenant",
        f"SLUICE_TENANT_MAX_IN_FLIGHT={cap} stops {sending} at {cap * tenants} seats in all"
        + (f" of {limits.upstreams} engines" if limits.upstreams > 1 else ""),
    )


def _turning_point(tokens: int, seats: int) -> str:
    return (
        f"; the seats fill first only while requests take {tokens // seats:,} tokens or less "
        f"on average, prompt and output together"
    )


def _seats_first(limits: Limits, seen: Occupancy, runner_up: _Reach | None) -> str:
    seats, tokens = limits.max_in_flight, limits.kv_cache_tokens
    if runner_up is not None:
        return f"{seats} seats fill first: {runner_up.why}"
    if tokens:
        return (
            f"{seats} seats fill first up to {tokens // seats:,} tokens a request on average, the "
            f"KV cache of {tokens:,} tokens above; the engine does not tell its model length"
        )
    known = "tell the size of its KV cache" if limits.engine_answers else "answer"
    average = f", {seen.tokens_per_seat:,.0f} tokens each" if seen.tokens_per_seat else ""
    return f"{seats} seats{average}, as far as can be seen: the engine does not {known}"


# What cannot be meant ----------------------------------------------------------------------------


def limit_warnings(limits: Limits) -> tuple[str, ...]:
    """Limits that can never bind, or only after vLLM's own; one line each."""
    return (
        *_seat_warnings(limits),
        *_kv_warnings(limits),
        *_prefill_warnings(limits),
        *_tenant_warnings(limits),
    )


def _seat_warnings(limits: Limits) -> Iterator[str]:
    seats, engine = limits.max_in_flight, limits.max_num_seqs
    if engine is not None and seats >= engine:
        yield (
            f"SLUICE_MAX_IN_FLIGHT={seats} binds after vLLM's own --max-num-seqs={engine}: "
            f"requests queue inside the engine, where they cannot be shed"
        )
    tenants, cap = limits.tenants, limits.tenant_max_in_flight
    if tenants is not None and cap is not None and tenants * cap < seats * limits.upstreams:
        yield (
            f"SLUICE_MAX_IN_FLIGHT={seats} can never bind: {tenants} tenants have "
            f"{tenants * cap} seats at most, by SLUICE_TENANT_MAX_IN_FLIGHT={cap}"
        )


def _kv_warnings(limits: Limits) -> Iterator[str]:
    seats, budget = limits.max_in_flight, limits.max_kv_tokens
    cache, full_length, length = (
        limits.kv_cache_tokens,
        limits.full_length_requests,
        limits.model_len,
    )
    if budget is None:
        if cache and full_length and full_length < seats:
            yield (
                f"long requests fill the KV cache before {seats} seats are taken, and vLLM then "
                f"preempts: watch vllm:num_preemptions_total, or set SLUICE_MAX_KV_TOKENS=auto, "
                f"or SLUICE_MAX_IN_FLIGHT={max(1, int(full_length))}, to rule it out"
            )
        return
    if length and budget >= seats * length:
        if not limits.max_kv_tokens_is_auto:  # which is there for the day when seats are added
            yield (
                f"SLUICE_MAX_KV_TOKENS={budget} can never bind: {seats} requests of full length "
                f"({length:,} tokens) take no more than {seats * length:,}"
            )
    elif cache and budget > cache:
        yield (
            f"SLUICE_MAX_KV_TOKENS={budget} binds after vLLM's own: the KV cache has {cache:,} "
            f"tokens, and the engine preempts unless requests use less than they ask for"
        )
    if budget < seats * KV_BLOCK_TOKENS:
        yield (
            f"SLUICE_MAX_IN_FLIGHT={seats} can never bind: SLUICE_MAX_KV_TOKENS={budget} leaves "
            f"less than one block of {KV_BLOCK_TOKENS} tokens for each seat"
        )
    elif length and budget < length:
        yield (
            f"SLUICE_MAX_KV_TOKENS={budget} is less than one request of full length "
            f"({length:,} tokens): such a request runs alone"
        )


def _prefill_warnings(limits: Limits) -> Iterator[str]:
    budget, length = limits.max_prefill_tokens, limits.model_len
    if budget is None:
        return
    seats, kv = limits.max_in_flight, limits.max_kv_tokens
    if length and budget >= seats * length:
        yield (
            f"SLUICE_MAX_PREFILL_TOKENS={budget} can never bind: {seats} prompts of full length "
            f"({length:,} tokens) have no more than {seats * length:,}"
        )
    elif kv is not None and budget >= kv:
        yield (
            f"SLUICE_MAX_PREFILL_TOKENS={budget} can never bind: every prompt counts towards "
            f"SLUICE_MAX_KV_TOKENS={kv} as well"
        )


def _tenant_warnings(limits: Limits) -> Iterator[str]:
    cap, seats = limits.tenant_max_in_flight, limits.max_in_flight * limits.upstreams
    if cap is not None and cap >= seats:
        yield (
            f"SLUICE_TENANT_MAX_IN_FLIGHT={cap} can never bind: there are no more than {seats} "
            f"seats"
        )

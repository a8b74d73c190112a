"""An engine that has started: what it really got, and whether Sluice's limit fits it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.vllm.binding_limit import (
    KV_BLOCK_TOKENS,
    Limits,
    Occupancy,
    binding_limit,
    full_length_requests,
)
from proxy.vllm.launch_plan.holding import Holding, holding, sequences_that_fit
from proxy.vllm.launch_plan.kv_cache import KvLayout
from proxy.vllm.launch_plan.sluice_limits import engine_sequences, seats_below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy.vllm.doctor.evidence import StartUpFacts
    from proxy.vllm.launch_plan.traffic import Traffic

_MOST_SEQUENCES = 1024
_MORE_THAN_ENOUGH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningEngine:
    """None: it does not tell. `max_num_seqs` is told by the launch arguments in a log only."""

    source: str
    version: str | None = None
    model: str | None = None
    kv_tokens: int | None = None
    kv_bytes: int | None = None
    model_bytes: int | None = None
    graph_bytes: int | None = None
    max_concurrency: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    block_tokens: int | None = None
    flags: Mapping[str, str] = field(default_factory=dict)

    @property
    def full_length(self) -> float | None:
        return full_length_requests(self.kv_tokens, self.max_model_len, self.max_concurrency)


@dataclass(frozen=True, slots=True)
class Fit:
    """`fits` is None when the limit, or too much of the engine, is not known. `seats` is what to
    set instead, where it can be said."""

    fits: bool | None
    reasons: tuple[str, ...]
    seats: int | None
    max_in_flight: int | None


def engine_of_log(facts: StartUpFacts, source: str) -> RunningEngine:
    flags = dict(facts.flags)
    return RunningEngine(
        source=source,
        version=facts.version,
        model=facts.model,
        kv_tokens=facts.kv_cache_tokens,
        kv_bytes=facts.kv_cache_bytes,
        model_bytes=facts.model_bytes,
        graph_bytes=facts.graph_pool_bytes,
        max_concurrency=facts.max_concurrency,
        max_model_len=facts.max_concurrency_tokens or _whole(flags.get("max_model_len")),
        max_num_seqs=_whole(flags.get("max_num_seqs")),
        block_tokens=_whole(flags.get("block_size")),
        flags=flags,
    )


def engine_of_page(cache_config: Mapping[str, str], source: str) -> RunningEngine:
    """From the labels of `vllm:cache_config_info`; older versions tell blocks only."""
    block = _whole(cache_config.get("block_size"))
    blocks = _whole(cache_config.get("num_gpu_blocks"))
    tokens = _whole(cache_config.get("kv_cache_size_tokens"))
    concurrency = _number(cache_config.get("kv_cache_max_concurrency"))
    if tokens is None and block and blocks:
        tokens = block * blocks
    kept = ("gpu_memory_utilization", "cache_dtype", "enable_prefix_caching", "block_size")
    return RunningEngine(
        source=source,
        kv_tokens=tokens,
        max_concurrency=concurrency,
        max_model_len=round(tokens / concurrency) if tokens and concurrency else None,
        block_tokens=block,
        flags={name: cache_config[name] for name in kept if name in cache_config},
    )


def judge_fit(
    engine: RunningEngine, max_in_flight: int | None, headroom: float, traffic: Traffic | None
) -> Fit:
    """Against --max-num-seqs, and against the KV cache for the lengths that are known."""
    held = _held(engine, traffic)
    seats = _seats(engine, headroom, held)
    if max_in_flight is None:
        said = "SLUICE_MAX_IN_FLIGHT is not set and --max-in-flight not given"
        return Fit(None, (said, *_hint(engine, held)), seats, None)
    problems = tuple(_problems(engine, max_in_flight, held))
    if problems:
        return Fit(False, problems, seats, max_in_flight)
    limits = Limits(
        max_in_flight=max_in_flight,
        max_num_seqs=engine.max_num_seqs,
        kv_cache_tokens=engine.kv_tokens,
        full_length_requests=engine.full_length,
        model_len=engine.max_model_len,
    )
    seen = Occupancy(tokens_per_seat=held.tokens if held else None)
    binding = binding_limit(limits, seen)
    reasons = (binding.why, *_remarks(engine, max_in_flight, seats, held))
    certain = engine.kv_tokens is not None and (held is not None or binding.which != "kv_tokens")
    return Fit(True if certain else None, reasons, seats, max_in_flight)


def _held(engine: RunningEngine, traffic: Traffic | None) -> Holding | None:
    if traffic is None or engine.kv_tokens is None:
        return None
    length = engine.max_model_len or engine.kv_tokens
    return holding(traffic, _layout(engine), max(2, length))


def _layout(engine: RunningEngine) -> KvLayout:
    return KvLayout(engine.block_tokens or KV_BLOCK_TOKENS, (), (), (None,), 0)


def _fitting(engine: RunningEngine, held: Holding | None) -> int | None:
    if engine.kv_tokens is None:
        return None
    if held is None:
        return int(engine.full_length) if engine.full_length else None
    return sequences_that_fit(held, engine.kv_tokens // _layout(engine).block_tokens - 1)


def _seats(engine: RunningEngine, headroom: float, held: Holding | None) -> int | None:
    """With known lengths what fits of them; without, as many as --max-num-seqs allows."""
    own = engine.max_num_seqs
    below = seats_below(own, headroom) if own else None
    fitting = _fitting(engine, held)
    if held is None or fitting is None:
        return below
    if below is not None:
        return max(1, min(fitting, below))
    return seats_below(engine_sequences(fitting, headroom, _MOST_SEQUENCES), headroom)


def _problems(engine: RunningEngine, seats: int, held: Holding | None) -> Iterator[str]:
    if engine.max_num_seqs is not None and seats >= engine.max_num_seqs:
        yield (
            f"SLUICE_MAX_IN_FLIGHT={seats} is not below the engine's --max-num-seqs="
            f"{engine.max_num_seqs}: requests would wait inside the engine, where they cannot be "
            f"shed"
        )
    fitting = _fitting(engine, held)
    if held is not None and fitting is not None and seats > fitting:
        yield (
            f"the KV cache ({engine.kv_tokens:,} tokens) holds {fitting:,} sequences of this "
            f"traffic ({held.tokens:,.0f} tokens each on average while they run), fewer than "
            f"{seats} seats: the engine would preempt"
        )
    if engine.kv_tokens is not None and engine.kv_tokens < seats * KV_BLOCK_TOKENS:
        yield (
            f"the KV cache ({engine.kv_tokens:,} tokens) has less than one block of "
            f"{KV_BLOCK_TOKENS} for each of {seats} seats"
        )


def _remarks(
    engine: RunningEngine, max_in_flight: int, seats: int | None, held: Holding | None
) -> Iterator[str]:
    if held is not None and seats is not None and seats > _MORE_THAN_ENOUGH * max_in_flight:
        yield f"{seats} seats would fit as well: the limit is far below what the engine can"
    yield from _hint(engine, held)


def _hint(engine: RunningEngine, held: Holding | None) -> Iterator[str]:
    if engine.max_num_seqs is None:
        yield (
            "the engine's --max-num-seqs is not told here; without the flag it is 256, on cards of "
            "70 GiB and more other than A100 1024"
        )
    if held is None:
        yield "give --prompt-tokens and --output-tokens to judge by the lengths of your requests"


def _whole(text: str | None) -> int | None:
    number = _number(text)
    return None if number is None else int(number)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 < number < float("inf") else None

"""A plan in words: each formula with its numbers, each assumption, each warning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.vllm.launch_plan import overheads as costs
from proxy.vllm.launch_plan.memory_budget import largest_utilization
from proxy.vllm.launch_plan.service_time import BANDWIDTH_SHARE, FLOPS_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.vllm.launch_plan.plan import LaunchPlan

GIB = 1 << 30
_FEW_SEQUENCES = 4


@dataclass(frozen=True, slots=True)
class Step:
    what: str
    formula: str
    numbers: str


def gib(size: float) -> str:
    return f"{size / GIB:.2f} GiB"


def steps(plan: LaunchPlan) -> tuple[Step, ...]:
    return (*_weights(plan), *_kv(plan), *_overheads(plan), *_room(plan), *_limits(plan))


def _weights(plan: LaunchPlan) -> Iterator[Step]:
    request, placed = plan.request, plan.request.placement
    form = request.form
    each = (
        f"{form.quantized_bits:.3g} bits ({form.name}), embeddings and norms {form.dtype_bytes} B"
        if form.quantized_bits
        else f"{form.dtype_bytes} B"
    )
    yield Step(
        "weights on a card",
        "sharded / T + KV projections x KV heads on it / KV heads + replicated, each x its bytes",
        f"{request.shape.parameters:,} parameters of {each}, T = {placed.tensor_parallel}, "
        f"P = {placed.pipeline_parallel}: "
        + ", ".join(gib(weights) for weights in plan.budget.weights)
        + (f"; scaled to the {gib(request.weights)} given" if request.weights else ""),
    )


def _kv(plan: LaunchPlan) -> Iterator[Step]:
    request, layout = plan.request, plan.cache.layout
    attention, tensor = request.shape.layers[0].attention, request.placement.tensor_parallel
    own = (
        f"{attention.key_size} (kv_lora_rank + qk_rope_head_dim, whole on every card)"
        if attention.latent
        else f"{attention.heads_per_card(tensor)} KV heads x "
        f"({attention.key_size} + {attention.value_size})"
    )
    yield Step(
        "KV cache of a token on a card",
        "layers on it x elements x bytes of an element",
        f"{len(request.shape.layers)} layers"
        + (f" over {len(layout.token_bytes)} stages" if len(layout.token_bytes) > 1 else "")
        + f" x {own} x {request.kv_element_bytes} B = "
        + ", ".join(f"{size:,} B" for size in layout.token_bytes),
    )
    if len(layout.windows) > 1 or layout.windows[0] is not None:
        yield Step(
            "layers with a window",
            "groups of equally many layers; a request takes at most (W - 1 + in flight) / b + 1 "
            "blocks in each group that has one",
            f"{len(layout.windows)} groups, windows "
            + ", ".join("none" if each is None else f"{each:,}" for each in layout.windows)
            + f"; {layout.in_flight_tokens:,} tokens may be in flight",
        )


def _overheads(plan: LaunchPlan) -> Iterator[Step]:
    own, low, high = plan.budget.overheads, *costs.ACTIVATIONS_RANGE
    yield Step(
        "activations (estimate)",
        "max(t x e x (4 h + (q + kv + m) / T + c h), s x v x 16 B)",
        f"max({gib(own.step)} for a step of {plan.max_num_batched_tokens:,} tokens, "
        f"{gib(own.sampler)} for the sampler's warm-up with {plan.max_num_seqs} sequences) = "
        f"{gib(own.activations)}; may be {low:g} to {high:g} times that",
    )
    graphs_low, graphs_high = costs.GRAPHS_RANGE
    yield Step(
        "CUDA graphs (estimate)",
        "layers x graphs x 0.2 MiB",
        f"{own.graph_count} graphs = {gib(own.graphs)}; may be {graphs_low:g} to {graphs_high:g} "
        f"times that",
    )
    yield Step(
        "other (estimate)",
        "0.2 GiB alone, 1 GiB where cards talk to each other (NCCL)",
        f"{gib(own.other)}; the CUDA context of about 0.5 GiB lies outside of vLLM's share",
    )


def _room(plan: LaunchPlan) -> Iterator[Step]:
    budget, cache = plan.budget, plan.cache
    low, high = budget.kv_range
    if budget.fixed_kv is not None:
        formula, numbers = "as given", gib(budget.fixed_kv)
    else:
        formula = "memory x utilization - weights - activations - graphs - other"
        numbers = (
            f"{gib(budget.memory)} x {budget.utilization:g} = {gib(budget.usable)}; left "
            + ", ".join(gib(left) for left in budget.kv_memory)
            + f"; from {gib(low)} to {gib(high)} by the estimates"
        )
    yield Step("memory for the KV cache on a card", formula, numbers)
    yield Step(
        "tokens in the KV cache",
        "blocks / blocks of a request of full length x full length",
        f"{cache.blocks:,} blocks of {cache.layout.block_tokens}; "
        f"{cache.layout.blocks_reserved(cache.max_model_len):,} for {cache.max_model_len:,} "
        f"tokens: {cache.tokens:,} tokens, {cache.concurrency:.2f}x",
    )


def _limits(plan: LaunchPlan) -> Iterator[Step]:
    held, limits, service = plan.held, plan.limits, plan.service
    yield Step(
        "sequences that fit",
        "largest n with n m + 2.33 s sqrt(n) <= blocks; m, s: blocks that a running sequence "
        "holds, weighted by how long it runs",
        f"m = {held.blocks:.1f} ({held.tokens:,.0f} tokens), s = {held.deviation:.1f}, "
        f"{max(0, plan.cache.blocks - 1):,} blocks: {plan.fitting:,}",
    )
    yield Step(
        "--max-num-seqs and seats",
        "largest N with floor(N x headroom) <= n, rounded down, at most vLLM's default for the "
        "card; seats = min(floor(N x headroom), N - 1, n)",
        f"N = {limits.max_num_seqs}, headroom {plan.request.headroom:g}: "
        f"{limits.max_in_flight} seats",
    )
    if service is None:
        return
    if service.step_s is not None and service.prefill_s is not None:
        yield Step(
            "service time (estimate)",
            "output tokens x decode step + sequences x prefill of one prompt; a step reads weights "
            f"and KV cache at {BANDWIDTH_SHARE:g} of the bandwidth, a prefill computes at "
            f"{FLOPS_SHARE:g} of the arithmetic",
            f"{plan.request.traffic.mean_output:.0f} x {service.step_s * 1e3:.1f} ms + "
            f"{service.sequences} x {service.prefill_s * 1e3:.1f} ms = {service.mean_s:.1f} s; "
            f"may be half or twice that",
        )
    yield Step(
        "queue",
        "timeout = service time / 4, from 2 to 10 s; depth = sequences / service time x timeout",
        f"{service.per_second:.2f} requests/s: {limits.queue_timeout_s} s, "
        f"{limits.max_queue_depth} places",
    )


def assumptions(plan: LaunchPlan) -> tuple[str, ...]:
    return tuple(_assumed(plan))


def _assumed(plan: LaunchPlan) -> Iterator[str]:
    request = plan.request
    traffic = request.traffic
    prompt, output = traffic.prompt, traffic.output
    yield (
        f"traffic: {traffic.source}; p50/p95 of the prompt {prompt.p50:,}/{prompt.p95:,} tokens, "
        f"of the output {output.p50:,}/{output.p95:,}"
    )
    if traffic.made_up:
        yield "lengths are log-normal, prompts and outputs independent of each other"
    yield "nothing else runs on the cards"
    yield "no prefix is shared: with prefix caching, which is on by default, more fits"
    yield (
        "chunked prefill is on, as it is by default in the V1 engine; --enable-chunked-prefill "
        "need not be given"
    )
    yield "vLLM 0.32; versions before 0.20 do not take the CUDA graphs off the KV cache"
    if request.card.bandwidth is None and request.service_time_s is None:
        yield (
            "the card is known by its memory only, so there is no service time: queue depth and "
            "timeout are Sluice's defaults; name the card, or give --service-time"
        )
    yield from request.shape.notes


def warnings(plan: LaunchPlan) -> tuple[str, ...]:
    return tuple(_warned(plan))


def _warned(plan: LaunchPlan) -> Iterator[str]:
    request, budget = plan.request, plan.budget
    most = largest_utilization(budget.memory)
    if plan.tight:
        yield (
            "it fits by less than the estimates may be off: try it, and keep "
            "--max-num-seqs or --max-num-batched-tokens lower in reserve"
        )
    if budget.utilization > most and budget.fixed_kv is None:
        yield (
            f"--gpu-memory-utilization {budget.utilization:g} leaves less than the 0.5 GiB that "
            f"the CUDA context takes: vLLM will not start above {most:g}"
        )
    if plan.fits and plan.fitting < plan.limits.max_num_seqs * request.headroom - 1:
        yield (
            f"the KV cache holds {plan.fitting:,} sequences of this traffic, --max-num-seqs "
            f"{plan.max_num_seqs} lets in more: vLLM would preempt; Sluice's seats stay below"
        )
    if plan.fits and plan.fitting < _FEW_SEQUENCES:
        yield f"only {plan.fitting} sequences of this traffic fit: throughput will be poor"
    longest = request.traffic.total.longest_likely
    if longest > plan.max_model_len:
        yield (
            f"requests of p99 length ({longest:,} tokens) are longer than --max-model-len "
            f"{plan.max_model_len:,}: the engine refuses them"
        )


def misfit(plan: LaunchPlan) -> str:
    """The one answer when it does not fit."""
    budget, layout = plan.budget, plan.cache.layout
    needed = max(layout.full_length_bytes(plan.max_model_len))
    heaviest = max(budget.weights)
    return (
        f"does not fit: each card lacks {gib(plan.missing)}. Weights {gib(heaviest)}, activations "
        f"{gib(budget.overheads.activations)}, CUDA graphs {gib(budget.overheads.graphs)}, other "
        f"{gib(budget.overheads.other)} and the KV cache of one request of "
        f"{plan.max_model_len:,} tokens {gib(needed)} are more than the "
        f"{gib(budget.usable)} that --gpu-memory-utilization {budget.utilization:g} of "
        f"{gib(budget.memory)} allows"
    )

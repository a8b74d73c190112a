"""How long a request takes in the engine: a roofline, good to half or twice.

    decode step   d = max(bytes read / (0.6 bandwidth), 2 a n / (0.4 flops T)) + 3 ms
    bytes read    weights that a batch of n sequences touches, and the KV cache of all of them
    prefill       c = 2 a p / (0.4 flops T P)
    service time  S = o d + n c       each output token waits for its step, and every sequence for
                                      the prefills of those that come while it runs
    throughput    n / S

a: active parameters, n: sequences, p, o: mean prompt and output tokens, T, P: tensor and pipeline
parallel. Of experts a batch touches 1 - (1 - share)^n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.vllm.launch_plan.shape import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.vllm.launch_plan.cards import Card
    from proxy.vllm.launch_plan.kv_cache import KvLayout
    from proxy.vllm.launch_plan.placement import Placement
    from proxy.vllm.launch_plan.shape import ModelShape
    from proxy.vllm.launch_plan.traffic import Traffic

BANDWIDTH_SHARE = 0.6
FLOPS_SHARE = 0.4
STEP_OVERHEAD_S = 0.003


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """`step_s` of a decode step, `prefill_s` of compute for one prompt, `mean_s` of a request in
    the engine. The first two are None where `mean_s` was given."""

    mean_s: float
    sequences: int
    step_s: float | None = None
    prefill_s: float | None = None
    tokens_per_s: float | None = None  # of prompts, while nothing else is computed

    @property
    def per_second(self) -> float:
        return self.sequences / self.mean_s


def estimate_service_time(
    shape: ModelShape,
    placement: Placement,
    card: Card,
    *,
    weights: Sequence[float],
    layout: KvLayout,
    held_tokens: float,
    traffic: Traffic,
    sequences: int,
) -> ServiceTime | None:
    """None for a card of which only the memory is known."""
    if card.bandwidth is None or card.flops is None:
        return None
    tensor, pipeline = placement.tensor_parallel, placement.pipeline_parallel
    batch = max(1.0, sequences / pipeline)
    kv_read = batch * held_tokens * sum(layout.token_bytes)
    read = sum(weights) * _touched(shape, batch) + kv_read
    flops = card.flops * FLOPS_SHARE * tensor
    memory_s = read / (card.bandwidth * BANDWIDTH_SHARE)
    compute_s = 2 * shape.active_parameters * batch / flops
    step_s = max(memory_s, compute_s) + STEP_OVERHEAD_S
    per_token_s = 2 * shape.active_parameters / (flops * pipeline)
    prefill_s = per_token_s * traffic.mean_prompt
    return ServiceTime(
        mean_s=traffic.mean_output * step_s + sequences * prefill_s,
        sequences=sequences,
        step_s=step_s,
        prefill_s=prefill_s,
        tokens_per_s=1 / per_token_s,
    )


def _touched(shape: ModelShape, batch: float) -> float:
    """The part of all weights that a batch reads."""
    experts = sum(
        weight.parameters
        for layer in shape.layers
        for weight in layer.weights
        if weight.kind is Kind.EXPERT
    )
    share = experts / max(1, shape.parameters)
    return 1 - share * (1 - shape.expert_share) ** batch if share else 1.0

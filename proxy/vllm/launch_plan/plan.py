"""From a request to a plan: what fits, and with which flags.

--max-num-seqs costs memory (the sampler's warm-up, CUDA graphs), and memory decides how many
sequences fit; a few rounds settle it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.vllm.launch_plan.engine_defaults import engine_defaults
from proxy.vllm.launch_plan.holding import Holding, holding, sequences_that_fit
from proxy.vllm.launch_plan.kv_cache import KvCache, kv_layout
from proxy.vllm.launch_plan.memory_budget import MemoryBudget, sound_utilization
from proxy.vllm.launch_plan.overheads import estimate_overheads
from proxy.vllm.launch_plan.placement import check_placement, stage_weights
from proxy.vllm.launch_plan.problem import PlanError
from proxy.vllm.launch_plan.service_time import ServiceTime, estimate_service_time
from proxy.vllm.launch_plan.sluice_limits import (
    SluiceLimits,
    engine_sequences,
    seats_below,
    sluice_limits,
)

if TYPE_CHECKING:
    from proxy.vllm.launch_plan.plan_request import PlanRequest

_ROUNDS = 4
_LENGTH_MARGIN = 1.25
_LENGTH_STEP = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """`missing`: bytes that the fullest card lacks, 0 when it fits. `fitting`: sequences that the
    cache holds at once, almost never preempting. `tight`: it fits by the estimate of the
    overheads, and does not if they turn out at the top of their range."""

    request: PlanRequest
    budget: MemoryBudget
    cache: KvCache
    held: Holding
    fitting: int
    max_num_batched_tokens: int
    default_max_num_seqs: int
    limits: SluiceLimits
    service: ServiceTime | None
    missing: float
    tight: bool

    @property
    def fits(self) -> bool:
        return self.missing <= 0

    @property
    def max_model_len(self) -> int:
        return self.cache.max_model_len

    @property
    def max_num_seqs(self) -> int:
        return self.limits.max_num_seqs


def make_plan(request: PlanRequest) -> LaunchPlan:
    """Raises PlanError for what vLLM would refuse whatever the memory."""
    check_placement(request.shape, request.placement)
    max_model_len = _model_length(request)
    defaults = engine_defaults(request.card)
    step_tokens = request.max_num_batched_tokens or defaults.max_num_batched_tokens
    sequences = request.max_num_seqs or defaults.max_num_seqs
    for _ in range(_ROUNDS):
        plan = _plan_with(request, sequences, step_tokens, max_model_len, defaults.max_num_seqs)
        if request.max_num_seqs is not None:
            return plan
        better = engine_sequences(plan.fitting, request.headroom, defaults.max_num_seqs)
        if better == sequences:
            return plan
        sequences = better
    return plan


def _model_length(request: PlanRequest) -> int:
    most = request.shape.max_model_len
    if request.max_model_len is not None:
        if most is not None and request.max_model_len > most:
            raise PlanError(
                f"--max-model-len {request.max_model_len}: the model takes {most:,} tokens"
            )
        return request.max_model_len
    likely = request.traffic.total.longest_likely * _LENGTH_MARGIN
    length = math.ceil(likely / _LENGTH_STEP) * _LENGTH_STEP
    return length if most is None else min(length, most)


def _plan_with(
    request: PlanRequest, sequences: int, step_tokens: int, max_model_len: int, most: int
) -> LaunchPlan:
    layout = kv_layout(
        request.shape,
        request.placement,
        request.kv_element_bytes,
        max_num_batched_tokens=step_tokens,
        block_tokens=request.block_tokens,
    )
    budget = _budget(request, sequences, step_tokens)
    one_request = layout.full_length_bytes(max_model_len)
    missing = budget.missing(one_request)
    cache = KvCache(layout, layout.blocks_in(budget.kv_memory), max_model_len)
    held = holding(request.traffic, layout, max_model_len)
    fitting = sequences_that_fit(held, cache.blocks - 1)
    seats = max(1, min(seats_below(sequences, request.headroom), fitting))
    service = _service(request, cache, budget, held, seats)
    return LaunchPlan(
        request=request,
        budget=budget,
        cache=cache,
        held=held,
        fitting=fitting,
        max_num_batched_tokens=step_tokens,
        default_max_num_seqs=most,
        service=service,
        limits=sluice_limits(
            max_num_seqs=sequences,
            fitting=fitting,
            headroom=request.headroom,
            service=service,
            step_tokens=step_tokens,
            longest_prompt=min(request.traffic.prompt.longest_likely, max_model_len),
            kv_tokens=cache.tokens,
        ),
        missing=missing,
        tight=missing <= 0 and budget.kv_range[0] < max(one_request),
    )


def _budget(request: PlanRequest, sequences: int, step_tokens: int) -> MemoryBudget:
    shape, placement, card = request.shape, request.placement, request.card
    weights = stage_weights(shape, placement, request.form)
    if request.weights is not None:
        counted = sum(weights) * placement.tensor_parallel
        weights = tuple(each * request.weights / counted for each in weights)
    return MemoryBudget(
        memory=card.memory,
        utilization=request.utilization or sound_utilization(card.memory, shape.multimodal),
        weights=weights,
        overheads=estimate_overheads(
            shape,
            placement,
            element_bytes=request.form.dtype_bytes,
            max_num_seqs=sequences,
            max_num_batched_tokens=step_tokens,
            cuda_graphs=not request.enforce_eager,
        ),
        fixed_kv=request.kv_memory,
    )


def _service(
    request: PlanRequest, cache: KvCache, budget: MemoryBudget, held: Holding, seats: int
) -> ServiceTime | None:
    if request.service_time_s is not None:
        return ServiceTime(request.service_time_s, seats)
    return estimate_service_time(
        request.shape,
        request.placement,
        request.card,
        weights=budget.weights,
        layout=cache.layout,
        held_tokens=held.tokens,
        traffic=request.traffic,
        sequences=seats,
    )

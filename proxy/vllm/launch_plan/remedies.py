"""What would make a model fit that does not: each change tried with the same arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from proxy.vllm.launch_plan.memory_budget import largest_utilization
from proxy.vllm.launch_plan.placement import Placement
from proxy.vllm.launch_plan.plan import make_plan
from proxy.vllm.launch_plan.problem import PlanError
from proxy.vllm.launch_plan.quantization import WeightFormat, named_format

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.vllm.launch_plan.plan import LaunchPlan
    from proxy.vllm.launch_plan.plan_request import PlanRequest

_SIZES = (2, 4, 8, 16, 32)
_FEW_SEQUENCES = 64
_SMALL_STEP = 2048
_LENGTH_STEP = 256
_QUANTIZATIONS = (
    ("fp8", "half the weights; computes in fp8 from Ada and Hopper on, on Ampere only stores so"),
    ("awq", "a 4-bit checkpoint of the model (AWQ or GPTQ): a little quality"),
)


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change after which it fits, alone. `flags` as vLLM takes them."""

    flags: str
    costs: str
    kv_tokens: int
    cards: int


def remedies(plan: LaunchPlan) -> tuple[Remedy, ...]:
    """Those that are enough alone; and if none is, more cards together with quantization."""
    alone = tuple(_single(plan))
    return alone or tuple(_together(plan.request))


def _single(plan: LaunchPlan) -> Iterator[Remedy]:
    request = plan.request
    yield from _shorter(plan)
    yield from _more_memory(request)
    if plan.max_num_seqs > _FEW_SEQUENCES:
        yield from _tried(
            replace(request, max_num_seqs=_FEW_SEQUENCES),
            f"--max-num-seqs {_FEW_SEQUENCES}",
            "fewer sequences at once",
        )
    if plan.max_num_batched_tokens > _SMALL_STEP:
        yield from _tried(
            replace(request, max_num_batched_tokens=_SMALL_STEP),
            f"--max-num-batched-tokens {_SMALL_STEP}",
            "long prompts take more steps",
        )
    if request.kv_dtype == "auto":
        yield from _tried(
            replace(request, kv_dtype="fp8", kv_element_bytes=1),
            "--kv-cache-dtype fp8",
            "half the KV cache; a little quality",
        )
    yield from _more_cards(request)
    yield from _quantized(request)


def _shorter(plan: LaunchPlan) -> Iterator[Remedy]:
    """The longest model length for which one request fits."""
    low, high = 0, plan.max_model_len // _LENGTH_STEP
    layout, budget = plan.cache.layout, plan.budget
    while low < high:
        middle = (low + high + 1) // 2
        if budget.missing(layout.full_length_bytes(middle * _LENGTH_STEP)) <= 0:
            low = middle
        else:
            high = middle - 1
    if low:
        length = low * _LENGTH_STEP
        yield from _tried(
            replace(plan.request, max_model_len=length),
            f"--max-model-len {length}",
            "longer requests are refused",
        )


def _more_memory(request: PlanRequest) -> Iterator[Remedy]:
    most = largest_utilization(request.card.memory)
    if request.kv_memory is None and (request.utilization or 0) < most:
        yield from _tried(
            replace(request, utilization=most),
            f"--gpu-memory-utilization {most:g}",
            "no margin left on the card",
        )


def _more_cards(request: PlanRequest) -> Iterator[Remedy]:
    pipeline = request.placement.pipeline_parallel
    for size in _SIZES:
        if size <= request.placement.tensor_parallel:
            continue
        found = list(
            _tried(
                replace(request, placement=Placement(size, pipeline)),
                f"--tensor-parallel-size {size}",
                f"{size * pipeline} cards",
            )
        )
        if found:
            yield from found
            return


def _quantized(request: PlanRequest) -> Iterator[Remedy]:
    if request.form.name is not None or request.weights is not None:
        return
    for name, costs in _QUANTIZATIONS:
        form = _quantized_form(name, request)
        yield from _tried(replace(request, form=form), f"--quantization {name}", costs)


def _quantized_form(name: str, request: PlanRequest) -> WeightFormat:
    return named_format(name, request.form.dtype_bytes)


def _together(request: PlanRequest) -> Iterator[Remedy]:
    if request.form.name is not None or request.weights is not None:
        return
    for name, costs in _QUANTIZATIONS:
        form = _quantized_form(name, request)
        for found in _more_cards(replace(request, form=form)):
            flags = f"{found.flags} --quantization {name}"
            yield replace(found, flags=flags, costs=f"{found.costs}; {costs}")


def _tried(request: PlanRequest, flags: str, costs: str) -> Iterator[Remedy]:
    try:
        plan = make_plan(request)
    except PlanError:  # the heads cannot be divided so
        return
    if plan.fits and plan.fitting:
        yield Remedy(flags, costs, plan.cache.tokens, request.placement.cards)

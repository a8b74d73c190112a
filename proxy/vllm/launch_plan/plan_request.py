"""What a plan is made from. None: not said, so the plan says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.vllm.launch_plan.cards import Card
    from proxy.vllm.launch_plan.placement import Placement
    from proxy.vllm.launch_plan.quantization import WeightFormat
    from proxy.vllm.launch_plan.shape import ModelShape
    from proxy.vllm.launch_plan.traffic import Traffic

DEFAULT_HEADROOM = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """`weights` and `kv_memory`: bytes that are known better than by counting, of the whole model
    and of one card. `quantize` is the `--quantization` that vLLM must be told; a checkpoint that
    says it by itself needs none."""

    model: str
    shape: ModelShape
    card: Card
    form: WeightFormat
    traffic: Traffic
    placement: Placement
    kv_dtype: str = "auto"
    kv_element_bytes: int = 2
    quantize: str | None = None
    dtype: str = "auto"
    utilization: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    block_tokens: int | None = None
    kv_memory: int | None = None
    weights: int | None = None
    enforce_eager: bool = False
    headroom: float = DEFAULT_HEADROOM
    service_time_s: float | None = None

"""What a card needs besides weights and KV cache. Estimates, each with how far it may be off.

    step       t x e x (4 h + (q + kv + m) / T + c h)      the largest tensors alive in one layer
    sampler    s x v x 16 bytes                            warm-up: logits of all sequences, sorted
    activations  the larger of the two                     0.6 to 1.6 times
    CUDA graphs  layers x graphs x 0.2 MiB                 0.5 to 2 times
    other        0.2 GiB, with tensor or pipeline parallel 1 GiB (NCCL)

t: tokens of a step, e: bytes of an element, h: hidden size, q, kv: elements of queries, keys and
values, m: of the MLP, c: experts of a token, T: tensor parallel, s: sequences, v: vocabulary.
The 16 bytes, and the whole, were set on published start-up logs: Llama-3.1-8B on A100-40G, A6000
and H100 NVL, gpt-oss-20b on A100 (see tests/unit/vllm/launch_plan/test_memory_budget.py).
The CUDA context lies outside of what --gpu-memory-utilization counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.vllm.launch_plan.placement import Placement
    from proxy.vllm.launch_plan.shape import ModelShape

MIB = 1 << 20
GIB = 1 << 30
SAMPLER_BYTES = 16
GRAPH_BYTES = 0.2 * MIB
OTHER_ALONE = 0.2 * GIB
OTHER_PARALLEL = 1.0 * GIB
CONTEXT_BYTES = int(0.5 * GIB)
ACTIVATIONS_RANGE = (0.6, 1.6)
GRAPHS_RANGE = (0.5, 2.0)
_LARGEST_GRAPH = 512
_FINE, _FINE_STEP, _COARSE_STEP = 256, 8, 16


@dataclass(frozen=True, slots=True)
class Overheads:
    """Bytes on one card; `activations` is the larger of `step` and `sampler`."""

    step: float
    sampler: float
    graphs: float
    graph_count: int
    other: float

    @property
    def activations(self) -> float:
        return max(self.step, self.sampler)

    @property
    def total(self) -> float:
        return self.activations + self.graphs + self.other

    @property
    def low(self) -> float:
        return (
            self.activations * ACTIVATIONS_RANGE[0] + self.graphs * GRAPHS_RANGE[0] + self.other / 2
        )

    @property
    def high(self) -> float:
        return (
            self.activations * ACTIVATIONS_RANGE[1] + self.graphs * GRAPHS_RANGE[1] + self.other * 2
        )


def estimate_overheads(
    shape: ModelShape,
    placement: Placement,
    *,
    element_bytes: int,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    cuda_graphs: bool = True,
) -> Overheads:
    tensor = placement.tensor_parallel
    attention = shape.layers[0].attention
    kept = attention.elements_per_token(tensor)
    chosen = round(shape.expert_share * shape.expert_count)
    elements = (4 + chosen) * shape.hidden + (shape.query_size + shape.mlp_size) / tensor + kept
    layers = -(-len(shape.layers) // placement.pipeline_parallel)
    graphs = graph_count(max_num_seqs) if cuda_graphs else 0
    return Overheads(
        step=max_num_batched_tokens * element_bytes * elements,
        sampler=max_num_seqs * shape.vocabulary * SAMPLER_BYTES,
        graphs=layers * graphs * GRAPH_BYTES,
        graph_count=graphs,
        other=OTHER_ALONE if placement.cards == 1 else OTHER_PARALLEL,
    )


def graph_count(max_num_seqs: int) -> int:
    """vLLM captures batches up to twice max_num_seqs, 512 at most, for steps with prefill, and up
    to max_num_seqs for steps without."""
    mixed = _captured(min(2 * max_num_seqs, _LARGEST_GRAPH))
    return mixed + _captured(min(max_num_seqs, _LARGEST_GRAPH))


def _captured(largest: int) -> int:
    small = sum(size <= largest for size in (1, 2, 4))
    fine = len(range(_FINE_STEP, min(largest + 1, _FINE), _FINE_STEP))
    return small + fine + len(range(_FINE, largest + 1, _COARSE_STEP))

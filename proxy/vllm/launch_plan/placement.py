"""Which card holds which weights.

    layers of a stage      n / P, what is left over goes one each to the stages before the last
    sharded weights        / T
    KV projections         max(1, kv_heads // T) of kv_heads heads
    replicated weights     whole, on each card

n: layers; T, P: tensor and pipeline parallel. Source: vLLM's distributed/utils.py get_pp_indices,
and its parallel linear layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from proxy.vllm.launch_plan.problem import PlanError
from proxy.vllm.launch_plan.shape import Kind, Split, Weight

if TYPE_CHECKING:
    from proxy.vllm.launch_plan.quantization import WeightFormat
    from proxy.vllm.launch_plan.shape import Attention, Layer, ModelShape


@dataclass(frozen=True, slots=True)
class Placement:
    tensor_parallel: int = 1
    pipeline_parallel: int = 1

    @property
    def cards(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel


def check_placement(shape: ModelShape, placement: Placement) -> None:
    """Raises PlanError for what vLLM would refuse."""
    tensor, pipeline = placement.tensor_parallel, placement.pipeline_parallel
    kv_heads = shape.layers[0].attention.kv_heads
    if shape.heads % tensor:
        raise PlanError(
            f"--tensor-parallel {tensor}: the {shape.heads} attention heads of the model "
            f"cannot be divided by it"
        )
    if not shape.latent and kv_heads % tensor and tensor % kv_heads:
        raise PlanError(
            f"--tensor-parallel {tensor}: the {kv_heads} KV heads of the model cannot be divided "
            f"by it, nor it by them"
        )
    if pipeline > len(shape.layers):
        raise PlanError(f"--pipeline-parallel {pipeline}: the model has {len(shape.layers)} layers")


def stages(layers: int, pipeline_parallel: int) -> tuple[range, ...]:
    """The layers of each stage."""
    sizes = [layers // pipeline_parallel] * pipeline_parallel
    for back in range(2, layers % pipeline_parallel + 2):
        sizes[-back] += 1
    starts = [sum(sizes[:at]) for at in range(pipeline_parallel + 1)]
    return tuple(range(a, b) for a, b in pairwise(starts))


def stage_weights(shape: ModelShape, placement: Placement, form: WeightFormat) -> tuple[float, ...]:
    """Bytes on one card of each stage."""
    split = stages(len(shape.layers), placement.pipeline_parallel)
    last = len(split) - 1
    return tuple(
        _stage_bytes(shape, [shape.layers[n] for n in own], placement, form, at == 0, at == last)
        for at, own in enumerate(split)
    )


def _stage_bytes(
    shape: ModelShape,
    layers: list[Layer],
    placement: Placement,
    form: WeightFormat,
    is_first: bool,
    is_last: bool,
) -> float:
    tensor = placement.tensor_parallel
    ends = [*(shape.first if is_first else ()), *(shape.last if is_last else ())]
    if shape.tied and is_last and not is_first:
        ends.append(Weight(shape.embedding, kind=Kind.PLAIN))
    if shape.absorbed is not None:
        ends += [shape.absorbed] * len(layers)
    attention = shape.layers[0].attention
    total = sum(_share(each, attention, tensor) * form.bytes_of(each.kind) for each in ends)
    return total + sum(
        _share(each, layer.attention, tensor) * form.bytes_of(each.kind)
        for layer in layers
        for each in layer.weights
    )


def _share(weight: Weight, attention: Attention, tensor_parallel: int) -> float:
    if weight.split is Split.REPLICATED:
        return weight.parameters
    if weight.split is Split.KV_HEADS:
        heads = attention.heads_per_card(tensor_parallel)
        return weight.parameters * heads / attention.kv_heads
    return weight.parameters / tensor_parallel

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.vllm.launch_plan.placement import Placement, check_placement, stage_weights, stages
from proxy.vllm.launch_plan.problem import PlanError
from proxy.vllm.launch_plan.quantization import WeightFormat, named_format
from tests.support.model_configs import model

BF16 = WeightFormat(None, 2)
GIB = 1 << 30


@pytest.mark.parametrize(
    ("layers", "pipeline", "sizes"),
    [
        (32, 4, [8, 8, 8, 8]),
        (61, 4, [15, 15, 16, 15]),
        (27, 4, [7, 7, 7, 6]),
        (62, 4, [15, 16, 16, 15]),
        (5, 2, [3, 2]),
    ],
)
def test_layers_are_cut_as_vllm_cuts_them(layers: int, pipeline: int, sizes: list[int]) -> None:
    assert [len(stage) for stage in stages(layers, pipeline)] == sizes


@given(st.integers(1, 200), st.integers(1, 16))
def test_every_layer_is_on_one_stage(layers: int, pipeline: int) -> None:
    if pipeline <= layers:
        assert [at for stage in stages(layers, pipeline) for at in stage] == list(range(layers))


@pytest.mark.parametrize(
    ("name", "tensor", "gib"),
    [
        # As start-up logs have it: "Model loading took 14.96 GiB", 7.51 with two cards.
        ("llama-3-8b", 1, 14.96),
        ("llama-3-8b", 2, 7.48),
        ("qwen2.5-7b", 1, 14.19),
        ("mixtral-8x7b", 2, 43.5),
    ],
)
def test_weights_of_a_card_are_those_of_published_logs(name: str, tensor: int, gib: float) -> None:
    weights = stage_weights(model(name), Placement(tensor), BF16)
    assert weights[0] / GIB == pytest.approx(gib, rel=0.005)


@pytest.mark.parametrize("pipeline", [1, 2, 3])
def test_cards_of_a_pipeline_hold_all_weights_once(pipeline: int) -> None:
    shape = model("llama-3-8b")
    assert sum(stage_weights(shape, Placement(1, pipeline), BF16)) == shape.parameters * 2


def test_a_pipeline_holds_a_tied_embedding_twice() -> None:
    shape = model("llama-3.2-1b")
    together = sum(stage_weights(shape, Placement(1, 2), BF16))
    assert together == (shape.parameters + shape.embedding) * 2


@given(st.sampled_from(["llama-3-8b", "mixtral-8x7b", "gemma-3-27b"]), st.sampled_from([2, 4, 8]))
def test_more_cards_hold_less_each_and_no_less_together(name: str, tensor: int) -> None:
    shape = model(name)
    alone = stage_weights(shape, Placement(1), BF16)[0]
    each = stage_weights(shape, Placement(tensor), BF16)[0]
    assert alone / tensor <= each < alone
    assert each * tensor <= alone * 1.01


def test_kv_projections_are_copied_when_there_are_fewer_heads_than_cards() -> None:
    shape = model("qwen2.5-7b")  # 4 KV heads
    four, eight = (stage_weights(shape, Placement(n), BF16)[0] for n in (4, 8))
    assert eight > four / 2


def test_mla_keeps_a_copy_of_its_up_projection() -> None:
    shape = model("deepseek-v2-lite")
    extra = stage_weights(shape, Placement(), BF16)[0] - shape.parameters * 2
    assert extra == 27 * 512 * 16 * 256 * 2


def test_a_quantized_model_is_smaller_but_for_its_embeddings() -> None:
    shape = model("qwen2.5-7b")
    awq = stage_weights(shape, Placement(), named_format("awq", 2))[0]
    assert awq / GIB == pytest.approx(5.2, rel=0.02)  # "Model loading took 5.2 GiB"


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        (Placement(3), "--tensor-parallel 3: the 28 attention heads"),
        (Placement(1, 29), "--pipeline-parallel 29: the model has 28 layers"),
        (Placement(14), "--tensor-parallel 14: the 4 KV heads"),
    ],
)
def test_what_vllm_would_refuse_is_refused(placement: Placement, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        check_placement(model("qwen2.5-7b"), placement)

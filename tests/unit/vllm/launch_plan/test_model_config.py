"""Counts against published ones: safetensors metadata, and transformers' own modules."""

from __future__ import annotations

import pytest

from proxy.vllm.launch_plan.config_fields import ConfigFields
from proxy.vllm.launch_plan.model_config import (
    quantization_section,
    shape_from_numbers,
    with_parameters,
)
from proxy.vllm.launch_plan.problem import NotModelledError, PlanError
from tests.support.model_configs import config_values, model

PUBLISHED = {
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v3": 671_026_404_352,  # without the layer that predicts a further token
    "falcon-40b": 41_303_293_952,
    "falcon-7b": 6_921_720_704,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-27b": 27_432_406_640,
    "gemma-3-4b": 4_300_079_472,
    "gpt-neox-20b": 20_554_567_680,
    "gpt-oss-20b": 20_914_757_184,
    "gpt2-xl": 1_557_611_200,
    "llama-3-70b": 70_553_706_496,
    "llama-3-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "llama-4-scout": 108_641_793_536,
    "mistral-7b-v0.1": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "opt-6.7b": 6_658_473_984,
    "phi-2": 2_779_683_840,
    "phi-3-mini-4k": 3_821_079_552,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-vl-7b": 8_292_166_656,
    "qwen3-30b-a3b": 30_532_122_624,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_within_one_percent_of_the_published_number(name: str) -> None:
    assert model(name).parameters == pytest.approx(PUBLISHED[name], rel=0.01)


@pytest.mark.parametrize("name", ["llama-3-8b", "llama-3-70b", "mixtral-8x7b", "phi-3-mini-4k"])
def test_where_there_are_no_biases_the_count_is_exact(name: str) -> None:
    assert model(name).parameters == PUBLISHED[name]


def test_layers_that_keep_a_state_are_unknown_rather_than_wrong() -> None:
    with pytest.raises(NotModelledError, match="jamba has Mamba layers"):
        model("jamba")


def test_the_language_model_is_found_inside_a_multimodal_one() -> None:
    shape = model("gemma-3-27b")
    assert (shape.hidden, len(shape.layers), shape.multimodal) == (5376, 62, True)


def test_the_head_is_tied_where_the_family_says_so_and_the_file_nothing() -> None:
    assert model("gemma-2-9b").tied
    assert not model("phi-2").tied


def test_an_unknown_type_is_read_and_noted() -> None:
    shape = model("llama-3-8b", model_type="llamoid")
    assert shape.parameters == PUBLISHED["llama-3-8b"]
    assert "'llamoid' is not in the table" in shape.notes[0]


def test_a_file_without_what_sizes_depend_on_says_which_key_is_missing() -> None:
    with pytest.raises(PlanError, match=r"config\.json: no such key: num_hidden_layers"):
        model("llama-3-8b", num_hidden_layers=None)


def test_the_quantization_is_found_inside_and_outside_of_the_text_part() -> None:
    inside = {"text_config": {"quantization_config": {"quant_method": "fp8"}}}
    assert quantization_section(ConfigFields(inside, "x")) is not None
    awq = ConfigFields(config_values("qwen2.5-7b-awq"), "x")
    assert quantization_section(awq) is not None
    assert quantization_section(ConfigFields(config_values("llama-3-8b"), "x")) is None


def test_numbers_alone_make_a_model_of_so_many_parameters() -> None:
    shape = shape_from_numbers(
        layers=32, kv_heads=8, head_dim=128, hidden=4096, parameters=8_030_000_001
    )
    assert shape.parameters == 8_030_000_001
    assert shape.heads == 32


def test_weights_can_be_scaled_to_a_better_number() -> None:
    assert with_parameters(model("llama-3-8b"), 16_000_000_000).parameters == pytest.approx(16e9)

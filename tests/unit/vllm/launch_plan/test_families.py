from __future__ import annotations

import pytest

from proxy.vllm.launch_plan.families import family_of, is_known, not_modelled


def test_an_unknown_family_is_taken_for_one_like_llama() -> None:
    assert family_of("somebody's") == family_of("llama")
    assert not is_known("somebody's")


@pytest.mark.parametrize(
    "values",
    [
        {"model_type": "mamba2"},
        {"model_type": "made_up", "mamba_d_state": 16},
        {"model_type": "made_up", "layer_types": ["full_attention", "linear_attention"]},
        {"model_type": "made_up", "is_encoder_decoder": True},
        {"model_type": "deepseek_v32"},
        {"model_type": "qwen3_next"},
    ],
)
def test_what_keeps_no_keys_and_values_for_each_token_is_told(values: dict[str, object]) -> None:
    assert not_modelled(values)


def test_windows_and_empty_keys_are_nothing_special() -> None:
    types = ["sliding_attention", "full_attention"]
    assert not_modelled({"layer_types": types, "num_kv_shared_layers": 0}) is None

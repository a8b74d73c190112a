from __future__ import annotations

import pytest

from proxy.vllm.launch_plan.shape import Kind, Layer
from tests.support.model_configs import config_values, model


def sparse(layer: Layer) -> bool:
    return any(weight.kind is Kind.EXPERT for weight in layer.weights)


@pytest.mark.parametrize(
    ("name", "sparse_layers", "share"),
    [
        ("llama-3-8b", 0, 1.0),
        ("mixtral-8x7b", 32, 2 / 8),
        ("deepseek-v2-lite", 26, 6 / 64),
        ("deepseek-v3", 58, 8 / 256),
        ("qwen3-30b-a3b", 48, 8 / 128),
    ],
)
def test_experts_are_in_the_layers_that_have_them(
    name: str, sparse_layers: int, share: float
) -> None:
    shape = model(name)
    assert sum(map(sparse, shape.layers)) == sparse_layers
    assert shape.expert_share == share


def test_every_second_layer_of_maverick_has_experts() -> None:
    text = config_values("llama-4-scout")["text_config"]
    shape = model("llama-4-scout", text_config={**text, "interleave_moe_layer_step": 2})
    assert [sparse(layer) for layer in shape.layers[:4]] == [False, True, False, True]


def test_layers_named_as_dense_are_dense() -> None:
    shape = model("qwen3-30b-a3b", mlp_only_layers=[0, 5])
    assert [at for at, layer in enumerate(shape.layers) if not sparse(layer)] == [0, 5]

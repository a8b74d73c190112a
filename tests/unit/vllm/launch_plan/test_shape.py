from __future__ import annotations

import pytest

from proxy.vllm.launch_plan.shape import Attention
from tests.support.model_configs import model

GQA = Attention(kv_heads=8, key_size=128, value_size=128)


@pytest.mark.parametrize(("tensor_parallel", "heads"), [(1, 8), (4, 2), (8, 1), (16, 1)])
def test_each_card_has_its_part_of_the_kv_heads_and_at_least_one(
    tensor_parallel: int, heads: int
) -> None:
    assert GQA.elements_per_token(tensor_parallel) == heads * 256


def test_a_latent_vector_is_whole_on_every_card() -> None:
    latent = Attention(16, 576, 0, latent=True)
    assert latent.elements_per_token(1) == latent.elements_per_token(8) == 576


@pytest.mark.parametrize(
    ("name", "billions"), [("mixtral-8x7b", 12.9), ("qwen3-30b-a3b", 3.3), ("deepseek-v3", 37)]
)
def test_active_parameters_are_those_that_the_publishers_name(name: str, billions: float) -> None:
    """Publishers count the token embedding in, which computes nothing."""
    assert model(name).active_parameters / 1e9 == pytest.approx(billions, rel=0.09)

from __future__ import annotations

import pytest

from proxy.vllm.launch_plan.problem import PlanError
from tests.support.model_configs import model


@pytest.mark.parametrize(
    ("name", "kv_heads", "size"),
    [
        ("llama-3-8b", 8, 128),
        ("qwen2.5-7b", 4, 128),
        ("falcon-7b", 1, 64),
        ("falcon-40b", 8, 64),
        ("gpt-neox-20b", 64, 96),
        ("opt-6.7b", 32, 128),
        ("gpt2-xl", 25, 64),
        ("phi-2", 32, 80),
        ("gemma-2-9b", 8, 256),
        ("gemma-3-4b", 4, 256),
        ("gpt-oss-20b", 8, 64),
    ],
)
def test_kv_heads_and_their_size_are_read_from_every_family(
    name: str, kv_heads: int, size: int
) -> None:
    attention = model(name).layers[0].attention
    assert (attention.kv_heads, attention.key_size, attention.value_size) == (kv_heads, size, size)


@pytest.mark.parametrize(
    ("name", "with_window", "window"),
    [
        ("llama-3-8b", 0, None),
        ("qwen2.5-7b", 0, None),  # use_sliding_window is false
        ("mistral-7b-v0.1", 32, 4096),
        ("phi-3-mini-4k", 32, 2047),
        ("gemma-2-9b", 21, 4096),
        ("gemma-3-27b", 52, 1024),
        ("gpt-oss-20b", 12, 128),
        ("llama-4-scout", 0, None),  # vLLM keeps its chunks whole
    ],
)
def test_windows_are_where_vllm_puts_them(name: str, with_window: int, window: int | None) -> None:
    windows = [layer.attention.window for layer in model(name).layers]
    assert sum(each is not None for each in windows) == with_window
    assert {each for each in windows if each} == ({window} if window else set())


def test_a_window_begins_at_the_layer_that_the_file_names() -> None:
    shape = model("qwen2.5-7b", use_sliding_window=True, sliding_window=4096, max_window_layers=20)
    assert [layer.attention.window for layer in shape.layers] == [None] * 20 + [4096] * 8


def test_mla_keeps_one_vector_whatever_the_heads() -> None:
    attention = model("deepseek-v3").layers[0].attention
    assert attention.latent
    assert attention.elements_per_token(8) == 512 + 64


def test_layer_types_must_be_as_many_as_layers() -> None:
    with pytest.raises(PlanError, match="layer_types has 1 entries for 32 layers"):
        model("mistral-7b-v0.1", layer_types=["full_attention"])

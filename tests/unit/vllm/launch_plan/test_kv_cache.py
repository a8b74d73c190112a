from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.vllm.launch_plan.kv_cache import KvCache, KvLayout, kv_layout
from proxy.vllm.launch_plan.placement import Placement
from tests.support.model_configs import model

GIB = 1 << 30


def layout(name: str, tensor: int = 1, pipeline: int = 1, element_bytes: int = 2) -> KvLayout:
    return kv_layout(
        model(name), Placement(tensor, pipeline), element_bytes, max_num_batched_tokens=2048
    )


def cache(name: str, gib: float, max_model_len: int, **placed: int) -> KvCache:
    of = layout(name, **placed)
    return KvCache(of, of.blocks_in([gib * GIB] * len(of.block_bytes)), max_model_len)


@pytest.mark.parametrize(
    ("name", "tensor", "token_bytes"),
    [
        ("llama-3-8b", 1, 131_072),
        ("llama-3-70b", 1, 327_680),
        ("llama-3-70b", 4, 81_920),
        ("llama-3-70b", 8, 40_960),
        ("llama-3-70b", 16, 40_960),  # 8 KV heads: the cards beyond hold copies
        ("qwen2.5-7b", 1, 57_344),
        ("qwen2.5-7b", 4, 14_336),
        ("mixtral-8x7b", 1, 131_072),
        ("mixtral-8x7b", 2, 65_536),
        ("deepseek-v2-lite", 1, 31_104),
        ("deepseek-v2-lite", 8, 31_104),  # MLA: whole on every card
        ("deepseek-v3", 8, 70_272),
        ("falcon-7b", 1, 8_192),
        ("opt-6.7b", 1, 524_288),
    ],
)
def test_kv_bytes_of_a_token_on_a_card_are_exact(name: str, tensor: int, token_bytes: int) -> None:
    assert layout(name, tensor).token_bytes == (token_bytes,)


def test_an_fp8_cache_takes_half() -> None:
    assert layout("llama-3-8b", element_bytes=1).token_bytes == (65_536,)


def test_stages_of_a_pipeline_have_their_own_layers() -> None:
    assert layout("deepseek-v2-lite", pipeline=2).token_bytes == (14 * 1152, 13 * 1152)


@given(
    st.sampled_from(["llama-3-8b", "qwen2.5-7b", "mistral-7b-v0.1"]),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 5),
)
def test_cards_together_hold_each_token_once(name: str, tensor: int, pipeline: int) -> None:
    of = layout(name, tensor, pipeline)
    assert tensor * sum(of.token_bytes) == sum(layout(name).token_bytes)


# What vLLM 0.32's own get_kv_cache_configs and get_kv_cache_capacity gave for these models: GiB of
# KV memory on each card, model length, T, P, bytes of an element, tokens of a step; blocks, tokens.
BY_VLLM = [
    ("llama-3-8b", 19.92, 32_768, 1, 1, 2, 2048, 10_199, 163_184),
    ("llama-3-8b", 20, 8192, 2, 1, 2, 2048, 20_480, 327_680),
    ("llama-3-70b", 30, 8192, 4, 1, 2, 8192, 24_576, 393_216),
    ("llama-3-70b", 30, 8192, 16, 1, 1, 8192, 98_304, 1_572_864),
    ("llama-3-70b", 30, 6000, 2, 3, 2, 8192, 36_408, 582_528),
    ("qwen2.5-7b", 10, 32_768, 8, 1, 2, 2048, 46_811, 748_976),
    ("mixtral-8x7b", 16, 32_768, 2, 1, 2, 2048, 16_384, 262_144),
    ("deepseek-v2-lite", 20, 32_768, 2, 1, 2, 2048, 10_787, 690_368),
    ("deepseek-v3", 40, 32_768, 8, 4, 2, 8192, 36_408, 2_330_112),
    ("mistral-7b-v0.1", 16, 32_768, 1, 1, 2, 2048, 8192, 523_265),
    ("gemma-2-9b", 16, 8192, 1, 1, 2, 2048, 6241, 49_879),
    ("gemma-3-27b", 18.35, 6144, 1, 1, 2, 8192, 15_032, 34_282),
    ("gemma-3-27b", 18.35, 131_072, 4, 2, 2, 8192, 120_258, 1_070_382),
    ("gemma-3-4b", 10, 32_768, 1, 1, 2, 2048, 32_768, 270_191),
    ("gpt-oss-20b", 36.56, 131_072, 2, 2, 2, 2048, 399_332, 6_189_102),
    ("phi-3-mini-4k", 10, 4096, 1, 1, 2, 2048, 1706, 27_189),
    ("falcon-7b", 10, 2048, 1, 1, 2, 2048, 81_920, 1_310_720),
]


@pytest.mark.parametrize(
    ("name", "gib", "length", "tensor", "pipeline", "element", "step", "blocks", "tokens"), BY_VLLM
)
def test_blocks_and_tokens_are_exactly_those_of_vllm(
    name: str,
    gib: float,
    length: int,
    tensor: int,
    pipeline: int,
    element: int,
    step: int,
    blocks: int,
    tokens: int,
) -> None:
    placed = Placement(tensor, pipeline)
    of = kv_layout(model(name), placed, element, max_num_batched_tokens=step)
    counted = KvCache(of, of.blocks_in([int(gib * GIB)] * pipeline), length)
    assert (counted.blocks, counted.tokens) == (blocks, tokens)


def test_a_window_makes_a_long_request_cheap() -> None:
    windowed, full = cache("mistral-7b-v0.1", 16, 32_768), cache("mixtral-8x7b", 16, 32_768)
    assert windowed.layout.blocks_reserved(32_768) == (4096 - 1 + 2 * 2048 + 15) // 16 + 1
    assert windowed.concurrency > 3.9 * full.concurrency


def test_layers_of_two_kinds_are_grouped_by_the_rarer() -> None:
    of = layout("gemma-3-27b")  # 10 full layers, 52 with a window: 1 group and 6
    assert of.windows.count(None) == 1
    assert of.windows.count(1024) == 6
    assert of.block_bytes == (10 * 16 * 16 * 256 * 2,)


def test_as_many_of_both_kinds_make_two_groups() -> None:
    assert len(layout("gpt-oss-20b").windows) == 2


def test_the_smallest_card_decides() -> None:
    of = layout("llama-3-8b", pipeline=2)
    assert of.blocks_in([8 * GIB, 4 * GIB]) == of.blocks_in([4 * GIB, 4 * GIB])


@given(st.floats(0, 200), st.floats(0, 200), st.sampled_from(["llama-3-8b", "gemma-3-27b"]))
def test_more_memory_never_holds_fewer_tokens(a: float, b: float, name: str) -> None:
    small, large = (cache(name, gib, 8192) for gib in sorted((a, b)))
    assert small.tokens <= large.tokens
    assert small.sequences_of(1000) <= large.sequences_of(1000)


@given(st.integers(1, 8000), st.integers(1, 8000), st.sampled_from(["llama-3-8b", "gemma-3-27b"]))
def test_longer_sequences_never_fit_more_often(a: int, b: int, name: str) -> None:
    short, long = sorted((a, b))
    of = cache(name, 20, 8192)
    assert of.sequences_of(short) >= of.sequences_of(long)
    assert of.layout.blocks_held(short) <= of.layout.blocks_held(long)


def test_sequences_take_whole_blocks_and_one_block_is_never_used() -> None:
    of = KvCache(layout("llama-3-8b"), 101, 8192)
    assert of.sequences_of(16) == 100
    assert of.sequences_of(17) == 50


def test_a_request_of_full_length_needs_its_blocks_and_the_null_block() -> None:
    assert layout("llama-3-8b").full_length_bytes(8192) == ((512 + 1) * 16 * 131_072,)

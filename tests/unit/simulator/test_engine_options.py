from __future__ import annotations

import pytest

from proxy.simulator.engine_options import EngineOptions


def test_the_cache_holds_its_blocks_tokens() -> None:
    options = EngineOptions(num_blocks=512, block_size=16)
    assert options.kv_cache_tokens == 8192
    assert options.kv_cache_bytes == 8192 * options.memory.kv_token_bytes


def test_a_cache_too_small_for_one_request_is_refused_as_vllm_refuses_it() -> None:
    with pytest.raises(ValueError, match="To serve at least one request with the model's max seq"):
        EngineOptions(num_blocks=10, max_model_len=161)


def test_no_cache_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="No available memory for the cache blocks"):
        EngineOptions(num_blocks=0)


def test_without_chunks_a_step_must_take_the_longest_prompt() -> None:
    with pytest.raises(ValueError, match="smaller than max_model_len"):
        EngineOptions(max_num_batched_tokens=4096, max_model_len=8192, chunked_prefill=False)
    EngineOptions(max_num_batched_tokens=8192, max_model_len=8192, chunked_prefill=False)


def test_a_step_must_take_a_token_of_every_sequence() -> None:
    with pytest.raises(ValueError, match="must not be below max_num_seqs"):
        EngineOptions(max_num_batched_tokens=255, max_num_seqs=256)


@pytest.mark.parametrize("name", ["max_num_seqs", "max_model_len", "block_size"])
def test_sizes_begin_at_one(name: str) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        EngineOptions(**{name: 0})

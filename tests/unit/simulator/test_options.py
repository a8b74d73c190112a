from __future__ import annotations

import pytest

from proxy.simulator.faults import Die, TimedFault
from proxy.simulator.gpu_memory import GIB, GpuMemory
from proxy.simulator.options import SimulatorOptions


def test_the_cache_takes_what_the_memory_leaves() -> None:
    roomy = SimulatorOptions(memory=GpuMemory(total_bytes=80 * GIB)).engine_options()
    small = SimulatorOptions().engine_options()
    assert roomy.kv_cache_tokens > 10 * small.kv_cache_tokens
    assert small.kv_cache_tokens % small.block_size == 0


def test_a_cache_size_may_be_given() -> None:
    options = SimulatorOptions(kv_cache_tokens=1000, max_model_len=512)
    assert options.engine_options().num_blocks == 62


def test_a_step_takes_more_tokens_where_other_options_need_it() -> None:
    assert SimulatorOptions().batched_tokens == 2048
    assert SimulatorOptions(max_num_seqs=4096).batched_tokens == 4096
    assert SimulatorOptions(enable_chunked_prefill=False).batched_tokens == 8192
    assert SimulatorOptions(max_num_batched_tokens=512).batched_tokens == 512


def test_what_cannot_be_served_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="No available memory for the cache blocks"):
        SimulatorOptions(memory=GpuMemory(weight_bytes=24 * GIB))
    with pytest.raises(ValueError, match="output_tokens"):
        SimulatorOptions(output_tokens=0)
    with pytest.raises(ValueError, match="served_model_name"):
        SimulatorOptions(served_model_name="")
    with pytest.raises(ValueError, match="block_size"):
        SimulatorOptions(block_size=0)


def test_non_default_options_are_told_without_the_key() -> None:
    options = SimulatorOptions(max_num_seqs=8, api_key="sk-canary", faults=(TimedFault(Die()),))
    told = options.non_default()
    assert told.keys() == {"max_num_seqs", "api_key", "faults"}
    assert "sk-canary" not in repr(told)

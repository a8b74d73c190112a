from __future__ import annotations

import pytest

from proxy.simulator.gpu_memory import GIB, GpuMemory

SMALL = GpuMemory(
    total_bytes=10 * GIB,
    utilization=0.9,
    weight_bytes=4 * GIB,
    context_bytes=1 * GIB,
    activation_token_bytes=GIB // 1024,
)


def test_the_kv_cache_gets_what_weights_and_the_largest_step_leave() -> None:
    assert SMALL.kv_cache_bytes(max_num_batched_tokens=1024) == pytest.approx(3 * GIB, abs=1)


def test_nothing_may_be_left() -> None:
    assert SMALL.kv_cache_bytes(max_num_batched_tokens=8192) < 0


def test_a_longer_prefill_shows_as_a_spike() -> None:
    short, long = SMALL.used_bytes(3 * GIB, 128), SMALL.used_bytes(3 * GIB, 1024)
    assert long - short == 896 * GIB // 1024


def test_no_more_is_used_than_there_is() -> None:
    assert SMALL.used_bytes(3 * GIB, 1_000_000) == 10 * GIB


@pytest.mark.parametrize("utilization", [0.0, 1.01])
def test_a_utilization_out_of_range_is_refused(utilization: float) -> None:
    with pytest.raises(ValueError, match="utilization must be above 0"):
        GpuMemory(utilization=utilization)

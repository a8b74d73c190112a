from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.vllm.launch_plan.cards import parse_card
from proxy.vllm.launch_plan.memory_budget import (
    MemoryBudget,
    largest_utilization,
    sound_utilization,
)
from proxy.vllm.launch_plan.overheads import Overheads, estimate_overheads
from proxy.vllm.launch_plan.placement import Placement, stage_weights
from proxy.vllm.launch_plan.quantization import WeightFormat, named_format
from tests.support.model_configs import model

GIB = 1 << 30


def budget(
    name: str, card: str, utilization: float, sequences: int, tokens: int, form: WeightFormat
) -> MemoryBudget:
    """As versions before 0.20 count, which do not take the CUDA graphs off."""
    shape = model(name)
    return MemoryBudget(
        parse_card(card).memory,
        utilization,
        stage_weights(shape, Placement(), form),
        estimate_overheads(
            shape,
            Placement(),
            element_bytes=2,
            max_num_seqs=sequences,
            max_num_batched_tokens=tokens,
            cuda_graphs=False,
        ),
    )


BF16 = WeightFormat(None, 2)


@pytest.mark.parametrize(
    ("name", "card", "utilization", "sequences", "tokens", "form", "gib"),
    [
        # From start-up logs: "Available KV cache memory", or the tokens x 128 KiB.
        ("llama-3-8b", "A100-40G", 0.9, 256, 2048, BF16, 19.92),
        ("llama-3-8b", "A6000", 0.9, 256, 2048, BF16, 221_824 / 8192),
        ("llama-3-8b", "H100-NVL", 0.9, 1024, 8192, BF16, 545_456 / 8192),
        # Its kernels pad the experts: the log has 13.72 GiB of weights, 0.9 more than are counted.
        ("gpt-oss-20b", "A100-80G", 0.65, 256, 2048, named_format("mxfp4", 2), 36.56 + 0.9),
    ],
)
def test_memory_for_the_kv_cache_is_near_that_of_published_logs(
    name: str,
    card: str,
    utilization: float,
    sequences: int,
    tokens: int,
    form: WeightFormat,
    gib: float,
) -> None:
    counted = budget(name, card, utilization, sequences, tokens, form)
    assert counted.kv_memory[0] / GIB == pytest.approx(gib, rel=0.03)
    assert counted.kv_range[0] / GIB < gib < counted.kv_range[1] / GIB + 0.5


def test_missing_is_what_the_worst_card_lacks() -> None:
    overheads = Overheads(step=1, sampler=2, graphs=3, graph_count=1, other=5)
    two = MemoryBudget(100, 0.9, (60.0, 70.0), overheads)
    assert two.kv_memory == (20.0, 10.0)
    assert two.missing((5, 12)) == 2
    assert two.missing((5, 10)) == 0


def test_memory_that_was_given_for_the_kv_cache_is_taken() -> None:
    overheads = Overheads(0, 0, 0, 0, 0)
    assert MemoryBudget(100, 0.9, (1e9, 1e9), overheads, fixed_kv=7).kv_memory == (7, 7)


def test_a_small_card_keeps_as_much_for_itself_as_a_large_one() -> None:
    assert sound_utilization(80 * GIB, multimodal=False) == 0.92
    assert sound_utilization(15 * GIB, multimodal=False) == 0.9
    assert sound_utilization(80 * GIB, multimodal=True) == 0.9


@given(st.integers(4 * GIB, 300 * GIB))
def test_the_context_has_room_beside_the_largest_utilization(memory: int) -> None:
    assert sound_utilization(memory, multimodal=False) <= largest_utilization(memory)
    assert memory * (1 - largest_utilization(memory)) >= 0.5 * GIB * 0.999

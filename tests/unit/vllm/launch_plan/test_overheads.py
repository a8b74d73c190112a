from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.vllm.launch_plan.overheads import GIB, Overheads, estimate_overheads, graph_count
from proxy.vllm.launch_plan.placement import Placement
from tests.support.model_configs import model


def of(name: str, seqs: int = 256, tokens: int = 2048, tensor: int = 1) -> Overheads:
    return estimate_overheads(
        model(name),
        Placement(tensor),
        element_bytes=2,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
    )


def test_many_sequences_are_paid_for_in_the_samplers_warm_up() -> None:
    assert of("llama-3-8b", seqs=1024).activations == 1024 * 128_256 * 16


def test_many_tokens_are_paid_for_in_the_step() -> None:
    """Published for 8,192 tokens: "PyTorch activation peak memory takes 1.26 GiB"."""
    large = of("llama-3-8b", seqs=64, tokens=8192)
    assert large.activations == large.step
    assert large.low / GIB < 1.26 < large.high / GIB


@pytest.mark.parametrize(("seqs", "graphs"), [(256, 51 + 35), (1024, 51 + 51), (8, 5 + 4), (1, 3)])
def test_graphs_are_as_many_as_vllm_captures(seqs: int, graphs: int) -> None:
    assert graph_count(seqs) == graphs


@given(st.integers(1, 1024), st.integers(16, 16_384), st.sampled_from([1, 2, 4, 8]))
def test_more_of_anything_never_needs_less(seqs: int, tokens: int, tensor: int) -> None:
    base = of("llama-3-8b", seqs, tokens, tensor)
    assert of("llama-3-8b", seqs + 1, tokens, tensor).total >= base.total
    assert of("llama-3-8b", seqs, tokens + 1, tensor).total >= base.total
    assert base.low <= base.total <= base.high


def test_cards_that_work_together_need_buffers_to_talk() -> None:
    assert of("llama-3-8b", tensor=2).other > of("llama-3-8b").other

from __future__ import annotations

import pytest

from proxy.vllm.launch_plan.cards import parse_card
from proxy.vllm.launch_plan.kv_cache import kv_layout
from proxy.vllm.launch_plan.placement import Placement, stage_weights
from proxy.vllm.launch_plan.quantization import WeightFormat
from proxy.vllm.launch_plan.service_time import ServiceTime, estimate_service_time
from proxy.vllm.launch_plan.traffic import assumed_traffic
from tests.support.model_configs import model


def estimate(name: str, card: str, sequences: int, tensor: int = 1) -> ServiceTime | None:
    shape, placed = model(name), Placement(tensor)
    return estimate_service_time(
        shape,
        placed,
        parse_card(card),
        weights=stage_weights(shape, placed, WeightFormat(None, 2)),
        layout=kv_layout(shape, placed, 2, max_num_batched_tokens=2048),
        held_tokens=1500,
        traffic=assumed_traffic(),
        sequences=sequences,
    )


def found(name: str, card: str, sequences: int, tensor: int = 1) -> ServiceTime:
    service = estimate(name, card, sequences, tensor)
    assert service is not None
    return service


def test_one_sequence_is_as_fast_as_the_weights_can_be_read() -> None:
    """An 8B model gives some 11 tokens a second on a 300 GB/s card, 90 on an H100."""
    assert 1 / (found("llama-3-8b", "L4", 1).step_s or 0) == pytest.approx(11, rel=0.2)
    assert 1 / (found("llama-3-8b", "H100", 1).step_s or 0) == pytest.approx(91, rel=0.2)


def test_of_experts_one_sequence_reads_few_and_many_read_all() -> None:
    one, many = found("mixtral-8x7b", "H200", 1), found("mixtral-8x7b", "H200", 64)
    assert one.step_s is not None
    assert many.step_s is not None
    assert many.step_s > 2.5 * one.step_s


def test_more_at_once_serves_more_and_each_one_slower() -> None:
    few, many = found("llama-3-8b", "H100", 8), found("llama-3-8b", "H100", 128)
    assert many.per_second > few.per_second
    assert many.mean_s > few.mean_s


def test_more_cards_are_faster() -> None:
    assert found("llama-3-70b", "H100", 32, 8).mean_s < found("llama-3-70b", "H100", 32, 4).mean_s


def test_of_a_card_known_by_its_memory_only_nothing_is_said() -> None:
    assert estimate("llama-3-8b", "80GiB", 8) is None

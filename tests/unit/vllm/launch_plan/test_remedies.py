from __future__ import annotations

from dataclasses import replace

from proxy.vllm.launch_plan.placement import Placement
from proxy.vllm.launch_plan.plan import make_plan
from proxy.vllm.launch_plan.quantization import named_format
from proxy.vllm.launch_plan.remedies import remedies
from tests.support.plan_requests import request


def flags(name: str, card: str, **changed: object) -> list[str]:
    return [each.flags for each in remedies(make_plan(request(name, card, **changed)))]


def test_weights_that_are_too_large_need_cards_or_fewer_bits() -> None:
    assert flags("llama-3-70b", "A100-80G") == [
        "--tensor-parallel-size 2",
        "--quantization fp8",
        "--quantization awq",
    ]


def test_each_remedy_is_enough_alone() -> None:
    made = request("llama-3-70b", "A100-80G")
    assert make_plan(replace(made, placement=Placement(2))).fits
    assert make_plan(replace(made, form=named_format("fp8", 2))).fits


def test_too_long_requests_get_the_length_that_fits() -> None:
    made = request("llama-3.2-1b", "6GiB", max_model_len=131_072)
    lengths = [each for each in remedies(make_plan(made)) if "--max-model-len" in each.flags]
    assert len(lengths) == 1
    length = int(lengths[0].flags.split()[1])
    assert make_plan(replace(made, max_model_len=length)).fits
    assert not make_plan(replace(made, max_model_len=length + 256)).fits


def test_more_cards_and_fewer_bits_are_tried_together_when_neither_is_enough() -> None:
    both = flags("llama-3-70b", "6GiB")
    assert both
    assert all("--tensor-parallel-size" in each and "--quantization" in each for each in both)


def test_a_quantized_model_is_not_quantized_again() -> None:
    assert not any(
        "quantization" in each for each in flags("llama-3-70b", "24GiB", quantization="awq")
    )

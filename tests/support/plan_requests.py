"""Requests for a plan, as `sluice plan` would make them."""

from __future__ import annotations

from dataclasses import replace

from proxy.vllm.launch_plan.cards import parse_card
from proxy.vllm.launch_plan.placement import Placement
from proxy.vllm.launch_plan.plan_request import PlanRequest
from proxy.vllm.launch_plan.quantization import named_format
from proxy.vllm.launch_plan.traffic import Lengths, traffic_of_percentiles
from tests.support.model_configs import model

TRAFFIC = traffic_of_percentiles(Lengths(800, 3000, 4000), Lengths(200, 800, 1000), "percentiles")


def request(
    name: str = "llama-3-8b",
    card: str = "H100",
    tensor: int = 1,
    pipeline: int = 1,
    quantization: str = "none",
    **changed: object,
) -> PlanRequest:
    made = PlanRequest(
        model=f"models/{name}",
        shape=model(name),
        card=parse_card(card),
        form=named_format(quantization, 2),
        traffic=TRAFFIC,
        placement=Placement(tensor, pipeline),
    )
    return replace(made, **changed)

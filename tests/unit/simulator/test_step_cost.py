from __future__ import annotations

import math

import pytest

from proxy.simulator.step_cost import StepCost


def test_a_step_costs_its_base_and_its_share_for_each_token_and_sequence() -> None:
    cost = StepCost(base_s=1.0, prefill_token_s=0.5, decode_sequence_s=0.25)
    assert cost.duration_s(prefill_tokens=2, decode_sequences=4) == 3.0


def test_speed_divides_all_of_it() -> None:
    assert StepCost(base_s=1.0, speed=4.0).duration_s(0, 0) == 0.25
    assert StepCost(speed=math.inf).duration_s(2048, 256) == 0.0


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan])
def test_a_speed_that_is_none_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="speed must be above 0"):
        StepCost(speed=speed)


def test_a_negative_cost_is_refused() -> None:
    with pytest.raises(ValueError, match="less than no time"):
        StepCost(prefill_token_s=-1e-6)

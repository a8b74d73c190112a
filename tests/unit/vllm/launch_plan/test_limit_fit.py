from __future__ import annotations

from proxy.vllm.launch_plan.limit_fit import judge_limit
from proxy.vllm.launch_plan.plan import make_plan
from tests.support.plan_requests import request


def test_the_recommended_seats_fit() -> None:
    plan = make_plan(request())
    fit = judge_limit(plan, plan.limits.max_in_flight)
    assert fit.fits
    assert f"--max-num-seqs is {plan.max_num_seqs}" in fit.why


def test_more_than_the_cache_holds_does_not_fit() -> None:
    plan = make_plan(request())
    fit = judge_limit(plan, plan.fitting + 1)
    assert not fit.fits
    assert f"{plan.fitting:,} sequences" in fit.why
    assert fit.said.startswith(f"SLUICE_MAX_IN_FLIGHT={plan.fitting + 1} does NOT fit: ")


def test_seats_that_are_not_below_max_num_seqs_do_not_fit() -> None:
    plan = make_plan(request(max_num_seqs=8))
    assert judge_limit(plan, 7).fits
    assert "not below --max-num-seqs 8" in judge_limit(plan, 8).why

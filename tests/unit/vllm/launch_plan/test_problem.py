from __future__ import annotations

from proxy.vllm.launch_plan.problem import NotModelledError, PlanError


def test_what_is_not_modelled_is_a_problem_of_its_own_kind() -> None:
    assert issubclass(NotModelledError, PlanError)

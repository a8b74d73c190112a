"""Which deaths are followed by a new start, and after how long."""

from __future__ import annotations

import random

import pytest

from proxy.supervision.restart_policy import Death, GiveUp, Restart, RestartPolicy
from proxy.vllm.doctor.evidence import Phase

KILLED = Death(exit_code=137, served_s=10.0)
AT_START = Death(exit_code=1, served_s=None)


def oom_at_start(phase: Phase) -> Death:
    return Death(exit_code=1, served_s=None, oom=True, phase=phase)


def policy(give_up_after: int = 5, **settings: float) -> RestartPolicy:
    return RestartPolicy(random.Random(1), give_up_after=give_up_after, **settings)


def delay(decided: Restart | GiveUp) -> float:
    assert isinstance(decided, Restart)
    return decided.delay_s


def test_each_delay_is_about_twice_the_one_before_up_to_the_longest() -> None:
    deaths = policy(100, first_delay_s=1.0, longest_delay_s=60.0)
    delays = [delay(deaths.after(KILLED)) for _ in range(50)]
    for number, waited in enumerate(delays):
        expected = min(60.0, 2.0**number)
        assert expected * 0.5 <= waited <= expected * 1.5


def test_delays_differ_so_that_several_engines_do_not_start_at_once() -> None:
    waited = {delay(RestartPolicy(random.Random(seed)).after(KILLED)) for seed in range(20)}
    assert len(waited) == 20


def test_so_many_deaths_in_a_row_are_the_end() -> None:
    deaths = policy(3)
    decided = [deaths.after(KILLED) for _ in range(3)]
    assert [type(one) for one in decided] == [Restart, Restart, GiveUp]
    assert decided[-1] == GiveUp("it died 3 times in a row")


def test_a_steady_life_ends_the_row() -> None:
    deaths = policy(2, steady_s=300.0, first_delay_s=1.0)
    steady = Death(exit_code=137, served_s=300.0)
    assert all(delay(deaths.after(steady)) <= 1.5 for _ in range(10))
    assert isinstance(deaths.after(KILLED), GiveUp)


def test_arguments_that_are_refused_are_not_tried_again() -> None:
    assert policy().after(Death(exit_code=2, served_s=None)) == GiveUp(
        "it does not take these arguments"
    )


def test_a_server_that_served_and_ends_with_2_is_started_again() -> None:
    assert isinstance(policy().after(Death(exit_code=2, served_s=5.0)), Restart)


@pytest.mark.parametrize(
    "phase", [Phase.STARTUP_WEIGHTS, Phase.STARTUP_NO_KV_CACHE, Phase.STARTUP_WARMUP]
)
def test_running_out_of_memory_at_the_same_point_of_the_start_is_not_tried_a_third_time(
    phase: Phase,
) -> None:
    deaths = policy()
    assert isinstance(deaths.after(oom_at_start(phase)), Restart)
    assert isinstance(deaths.after(oom_at_start(phase)), GiveUp)


def test_another_point_of_the_start_is_another_failure() -> None:
    deaths = policy()
    assert isinstance(deaths.after(oom_at_start(Phase.STARTUP_WEIGHTS)), Restart)
    assert isinstance(deaths.after(AT_START), Restart)
    assert isinstance(deaths.after(oom_at_start(Phase.STARTUP_WEIGHTS)), Restart)


def test_memory_that_others_hold_may_be_free_at_the_next_start() -> None:
    deaths = policy(4)
    taken = oom_at_start(Phase.STARTUP_MEMORY_TAKEN)
    assert [type(deaths.after(taken)) for _ in range(4)] == [Restart, Restart, Restart, GiveUp]

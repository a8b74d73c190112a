from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.vllm.launch_plan.service_time import ServiceTime
from proxy.vllm.launch_plan.sluice_limits import (
    SluiceLimits,
    engine_sequences,
    seats_below,
    sluice_limits,
)


def limits(service: ServiceTime | None, fitting: int = 100) -> SluiceLimits:
    return sluice_limits(
        max_num_seqs=112,
        fitting=fitting,
        headroom=0.9,
        service=service,
        step_tokens=2048,
        longest_prompt=4000,
        kv_tokens=1_000_000,
    )


@given(st.integers(2, 5000), st.floats(0.01, 0.99))
def test_seats_are_always_below_max_num_seqs(number: int, headroom: float) -> None:
    assert 1 <= seats_below(number, headroom) < number


@given(st.integers(1, 5000), st.floats(0.5, 0.99), st.integers(2, 2000))
def test_all_seats_of_the_number_that_is_recommended_fit(
    fitting: int, headroom: float, most: int
) -> None:
    number = engine_sequences(fitting, headroom, most)
    assert 2 <= number <= most
    assert seats_below(number, headroom) <= fitting


@pytest.mark.parametrize(("fitting", "number"), [(26, 29), (100, 112), (274, 304), (1, 2)])
def test_large_numbers_are_round(fitting: int, number: int) -> None:
    assert engine_sequences(fitting, 0.9, 1024) == number


def test_the_queue_is_as_deep_as_the_engine_serves_in_its_timeout() -> None:
    queue = limits(ServiceTime(mean_s=20.0, sequences=100))
    assert (queue.queue_timeout_s, queue.max_queue_depth) == (5, 25)


def test_nobody_waits_for_longer_than_ten_seconds_or_less_than_two() -> None:
    assert limits(ServiceTime(200.0, 100)).queue_timeout_s == 10
    assert limits(ServiceTime(0.5, 100)).queue_timeout_s == 2


def test_without_a_service_time_the_queue_has_its_defaults() -> None:
    queue = limits(None)
    assert (queue.queue_timeout_s, queue.max_queue_depth, queue.max_in_flight) == (5, 100, 100)


def test_seats_are_no_more_than_fit() -> None:
    assert limits(None, fitting=40).max_in_flight == 40


def test_a_prefill_limit_that_could_never_bind_is_left_out() -> None:
    assert limits(None, fitting=2).environment().get("SLUICE_MAX_PREFILL_TOKENS") is None
    assert limits(None).environment()["SLUICE_MAX_PREFILL_TOKENS"] == "8200"


def test_the_environment_is_what_settings_are_called() -> None:
    assert list(limits(None).environment()) == [
        "SLUICE_MAX_NUM_SEQS",
        "SLUICE_MAX_IN_FLIGHT",
        "SLUICE_MAX_QUEUE_DEPTH",
        "SLUICE_QUEUE_TIMEOUT",
        "SLUICE_MAX_KV_TOKENS",
        "SLUICE_MAX_PREFILL_TOKENS",
    ]

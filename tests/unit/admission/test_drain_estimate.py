from __future__ import annotations

import math

import pytest

from proxy.admission.drain_estimate import DrainEstimate


def keep_full(
    estimate: DrainEstimate, seats: int, *, hold_s: float, for_s: float, at: float = 0.0
) -> float:
    """Seats that are all taken, each again as soon as it comes back. Returns the end."""
    for _ in range(round(for_s * seats / hold_s)):
        at += hold_s / seats
        estimate.gave_back(1, hold_s, at)
        estimate.took(1, at)
    return at


def test_nobody_can_tell_before_the_first_seat_came_back() -> None:
    estimate = DrainEstimate()
    assert math.isinf(estimate.expected_wait_s(1, 4, now=0.0))
    estimate.took(4, 0.0)
    assert math.isinf(estimate.expected_wait_s(1, 4, now=10.0))


def test_where_there_are_no_seats_nobody_can_tell() -> None:
    estimate = DrainEstimate()
    estimate.took(2, 0.0)
    end = keep_full(estimate, 2, hold_s=1.0, for_s=10)
    assert math.isinf(estimate.expected_wait_s(1, 0, end))


def test_whoever_need_not_wait_waits_zero_seconds() -> None:
    assert DrainEstimate().expected_wait_s(0, 4, now=0.0) == 0.0
    assert DrainEstimate().expected_wait_s(-3, 4, now=0.0) == 0.0


@pytest.mark.parametrize("ahead", [1, 4, 20])
def test_under_full_load_the_wait_is_seats_ahead_over_seats_a_second(ahead: int) -> None:
    estimate = DrainEstimate()
    estimate.took(8, 0.0)
    end = keep_full(estimate, 8, hold_s=2.0, for_s=100)
    assert estimate.expected_wait_s(ahead, 8, end) == pytest.approx(ahead / 4.0, rel=0.05)


def test_light_traffic_foretells_the_wait_under_full_load() -> None:
    estimate = DrainEstimate()
    at = 0.0
    for _ in range(20):  # one seat of ten is taken, for 2 s out of every 20
        estimate.took(1, at)
        estimate.gave_back(1, 2.0, at + 2)
        at += 20
    assert estimate.expected_wait_s(10, 10, at) == pytest.approx(2.0, rel=0.05)


def test_wide_requests_count_by_their_seats() -> None:
    estimate = DrainEstimate()
    for start in range(0, 200, 2):
        estimate.took(8, float(start))
        estimate.gave_back(8, 2.0, start + 2.0)
    assert estimate.expected_wait_s(8, 8, 200.0) == pytest.approx(2.0, rel=0.05)


def test_a_change_of_speed_is_followed_within_a_few_time_constants() -> None:
    estimate = DrainEstimate(time_constant_s=10)
    estimate.took(4, 0.0)
    at = keep_full(estimate, 4, hold_s=1.0, for_s=60)
    at = keep_full(estimate, 4, hold_s=4.0, for_s=40, at=at)
    assert estimate.expected_wait_s(4, 4, at) == pytest.approx(4.0, rel=0.1)


def test_idle_time_changes_nothing() -> None:
    estimate = DrainEstimate()
    estimate.took(4, 0.0)
    end = keep_full(estimate, 4, hold_s=1.0, for_s=20)
    estimate.gave_back(4, 1.0, end)
    before = estimate.expected_wait_s(4, 4, end)
    assert estimate.expected_wait_s(4, 4, end + 1e6) == before


def test_during_a_stall_the_wait_grows_and_stays_bounded() -> None:
    estimate = DrainEstimate(time_constant_s=30)
    estimate.took(4, 0.0)
    at = keep_full(estimate, 4, hold_s=1.0, for_s=60)
    waits = [estimate.expected_wait_s(1, 4, at + stalled) for stalled in (0, 30, 120, 600)]
    assert waits == sorted(waits)
    assert waits[1] > 1.5 * waits[0]
    assert estimate.expected_wait_s(1, 4, at + 1e6) == 3600.0


def test_seats_given_back_in_the_moment_they_were_taken_teach_nothing() -> None:
    estimate = DrainEstimate()
    estimate.took(1, 5.0)
    estimate.gave_back(1, 0.0, 5.0)
    assert math.isinf(estimate.expected_wait_s(1, 1, 5.0))


def test_the_first_of_those_that_began_together_does_not_make_the_engine_look_slow() -> None:
    estimate = DrainEstimate()
    estimate.took(7, 0.0)
    estimate.gave_back(1, 1.0, 1.0)
    assert estimate.expected_wait_s(7, 7, 1.0) == pytest.approx(1.0, rel=0.05)
    for _ in range(6):
        estimate.gave_back(1, 1.0, 1.0)
    assert estimate.expected_wait_s(7, 7, 1.0) == pytest.approx(1.0, rel=0.05)


def test_a_seat_that_was_held_for_less_than_a_second_teaches_too() -> None:
    estimate = DrainEstimate()
    estimate.took(1, 0.0)
    estimate.gave_back(1, 0.25, 0.25)
    assert estimate.expected_wait_s(1, 1, 0.25) == pytest.approx(0.25, rel=0.05)


def test_where_seats_are_held_for_hours_it_says_an_hour() -> None:
    estimate = DrainEstimate()
    estimate.took(1, 0.0)
    estimate.gave_back(1, 7200.0, 7200.0)
    assert estimate.expected_wait_s(1, 1, 7200.0) == 3600.0

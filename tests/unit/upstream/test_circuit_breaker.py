from __future__ import annotations

import pytest

from proxy.upstream.circuit_breaker import BreakerState, CircuitBreaker

CLOSED, OPEN, HALF_OPEN = BreakerState


def fail(breaker: CircuitBreaker, count: int, now: float = 0.0, *, may_open: bool = True) -> bool:
    """Whether one of so many failed answers opens it."""
    return any(breaker.failed(now, "status 500", may_open=may_open) for _ in range(count))


def opened(now: float = 0.0) -> CircuitBreaker:
    breaker = CircuitBreaker()
    assert breaker.not_connected(now, "connection refused", may_open=True)
    return breaker


def half_open(now: float = 1.0) -> CircuitBreaker:
    breaker = opened(now - 1)
    assert breaker.advance(now)
    return breaker


def cool_down_s(breaker: CircuitBreaker, now: float) -> float:
    """How long it stays open from now on."""
    for tenth in range(1000):
        if breaker.advance(now + tenth / 10):
            return tenth / 10
    raise AssertionError("it stays open")


def test_it_begins_closed_and_calm() -> None:
    breaker = CircuitBreaker()
    assert (breaker.state, breaker.is_calm, breaker.reason) == (CLOSED, True, "")
    assert not breaker.succeeded(0.0)
    assert breaker.is_calm


def test_the_first_connection_that_cannot_be_made_opens_it() -> None:
    breaker = opened()
    assert breaker.state is OPEN
    assert breaker.reason == "taken out for 1 s: connection refused"


def test_half_of_the_latest_answers_open_it() -> None:
    breaker = CircuitBreaker()
    assert not fail(breaker, 9)
    assert fail(breaker, 1)
    assert breaker.reason == "taken out for 1 s: 10 of the last 10 requests failed, status 500"


def test_fewer_than_half_do_not() -> None:
    breaker = CircuitBreaker()
    for _ in range(100):
        assert not fail(breaker, 1)
        breaker.succeeded(0.0)
        breaker.succeeded(0.0)
    assert breaker.state is CLOSED


def test_answers_that_went_well_before_the_first_failure_weigh_nothing() -> None:
    breaker = CircuitBreaker()
    for _ in range(1000):
        breaker.succeeded(0.0)
    assert fail(breaker, 10)


def test_what_failed_long_ago_is_forgotten() -> None:
    breaker = CircuitBreaker()
    assert not fail(breaker, 9, now=0.0)
    assert not fail(breaker, 9, now=31.0)
    breaker.succeeded(62.0)
    assert not fail(breaker, 1, now=62.0)
    breaker.succeeded(100.0)
    assert breaker.is_calm


def test_after_twenty_good_ones_it_is_calm_again() -> None:
    breaker = CircuitBreaker()
    fail(breaker, 1)
    for _ in range(19):
        breaker.succeeded(0.0)
        assert not breaker.is_calm
    breaker.succeeded(0.0)
    assert breaker.is_calm


def test_the_last_one_is_never_taken_out() -> None:
    breaker = CircuitBreaker()
    assert not breaker.not_connected(0.0, "connection refused", may_open=False)
    assert not fail(breaker, 50, may_open=False)
    assert breaker.state is CLOSED
    assert fail(breaker, 1), "it is once there are others"


def test_it_is_half_open_when_its_time_is_over() -> None:
    breaker = opened(now=100.0)
    assert not breaker.advance(100.9)
    assert breaker.advance(101.0)
    assert breaker.state is HALF_OPEN
    assert not breaker.advance(200.0)


def test_it_is_half_open_at_once_when_there_is_nobody_else() -> None:
    breaker = opened(now=100.0)
    assert breaker.advance(100.1, is_alone=True)
    assert breaker.state is HALF_OPEN


def test_one_request_that_ends_well_closes_it() -> None:
    breaker = half_open()
    assert breaker.succeeded(2.0)
    assert (breaker.state, breaker.reason, breaker.is_calm) == (CLOSED, "", True)


@pytest.mark.parametrize("how", ["failed", "not_connected"])
def test_one_request_that_fails_opens_it_again(how: str) -> None:
    breaker = half_open()
    assert getattr(breaker, how)(1.5, "again", may_open=True)
    assert breaker.state is OPEN


@pytest.mark.parametrize("how", ["failed", "not_connected"])
def test_half_open_it_stays_so_when_there_is_nobody_else(how: str) -> None:
    breaker = half_open()
    assert not getattr(breaker, how)(1.5, "again", may_open=False)
    assert breaker.state is HALF_OPEN


def test_each_time_it_stays_open_for_twice_as_long_up_to_a_minute() -> None:
    breaker, now = opened(), 0.0
    times = []
    for _ in range(8):
        times.append(cool_down_s(breaker, now))
        now += times[-1]
        breaker.not_connected(now, "again", may_open=True)
    assert times == [1, 2, 4, 8, 16, 32, 60, 60]


def test_one_that_falls_again_soon_is_out_for_longer_and_after_a_good_minute_it_is_not() -> None:
    breaker = half_open(now=1.0)
    breaker.succeeded(2.0)
    breaker.not_connected(50.0, "again", may_open=True)
    assert cool_down_s(breaker, 50.0) == 2
    breaker.succeeded(52.0)
    breaker.not_connected(113.0, "again", may_open=True)
    assert cool_down_s(breaker, 113.0) == 1


def test_what_began_before_it_opened_neither_closes_it_nor_counts_afterwards() -> None:
    breaker = opened()
    assert not fail(breaker, 30, now=0.5)
    assert not breaker.succeeded(0.5)
    assert breaker.state is OPEN
    assert breaker.advance(1.0)
    breaker.succeeded(1.1)
    assert not fail(breaker, 9, now=2.0)
    assert breaker.state is CLOSED


def test_a_connection_that_fails_while_it_is_open_leaves_it_as_it_is() -> None:
    breaker = opened()
    assert not breaker.not_connected(0.5, "again", may_open=True)
    assert breaker.advance(1.0)

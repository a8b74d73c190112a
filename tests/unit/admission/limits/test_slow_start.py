from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.admission.limits.fixed import FixedLimit
from proxy.admission.limits.slow_start import SlowStart
from tests.support.admission import MovableLimit


def opening(limit: SlowStart, from_s: float, until_s: int) -> list[int]:
    """Its seats each second."""
    seats = []
    for second in range(until_s + 1):
        limit.advance(from_s + second)
        seats.append(limit.seats)
    return seats


def test_until_a_recovery_all_seats_are_open() -> None:
    limit = SlowStart(FixedLimit(50))
    assert not limit.is_opening
    assert limit.advance(1000.0) is False
    assert limit.seats == 50


def test_after_a_recovery_they_open_evenly_from_a_tenth() -> None:
    limit = SlowStart(FixedLimit(100))
    limit.begin(500.0)
    assert opening(limit, 500.0, 11) == [10, 19, 28, 37, 46, 55, 64, 73, 82, 91, 100, 100]
    assert not limit.is_opening


def test_a_small_limit_opens_from_one_seat() -> None:
    limit = SlowStart(FixedLimit(4))
    limit.begin(0.0)
    assert opening(limit, 0.0, 10) == [1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4]


def test_it_says_when_there_are_more_seats_than_before() -> None:
    limit = SlowStart(FixedLimit(4))
    limit.begin(0.0)
    assert [limit.advance(float(now)) for now in (0, 2, 5, 6, 10, 11)] == [
        *(False, False, True, False, True, False)
    ]


def test_an_engine_that_falls_again_starts_again() -> None:
    limit = SlowStart(FixedLimit(100))
    limit.begin(0.0)
    limit.advance(9.0)
    limit.begin(9.0)
    assert limit.seats == 10
    limit.advance(14.0)
    assert limit.seats == 55


def test_it_opens_to_where_the_limit_behind_it_is_by_then() -> None:
    behind = MovableLimit(100)
    limit = SlowStart(behind)
    limit.begin(0.0)
    limit.advance(5.0)
    behind.seats = 20
    assert limit.seats == 11
    limit.advance(10.0)
    assert limit.seats == 20


def test_where_there_are_no_seats_none_open() -> None:
    limit = SlowStart(FixedLimit(0))
    limit.begin(0.0)
    assert limit.seats == 0


def test_a_probe_opens_one_seat_until_it_is_told_to_begin() -> None:
    limit = SlowStart(FixedLimit(100))
    limit.probe()
    assert opening(limit, 0.0, 20) == [1] * 21
    assert not limit.is_shut
    limit.begin(30.0)
    assert opening(limit, 30.0, 1) == [10, 19]


def test_shut_it_has_no_seat_until_it_is_told_to_begin() -> None:
    limit = SlowStart(FixedLimit(100))
    limit.shut()
    assert limit.is_shut
    assert opening(limit, 0.0, 20) == [0] * 21
    limit.begin(30.0)
    assert not limit.is_shut
    assert limit.seats == 10


def test_a_probe_where_there_are_no_seats_opens_none() -> None:
    limit = SlowStart(FixedLimit(0))
    limit.probe()
    assert limit.seats == 0


def test_a_clock_that_goes_back_closes_nothing() -> None:
    limit = SlowStart(FixedLimit(100))
    limit.begin(100.0)
    limit.advance(105.0)
    assert limit.advance(0.0) is False
    assert limit.seats == 55


@given(st.integers(0, 5000), st.lists(st.floats(0, 20), max_size=20))
def test_seats_only_become_more_and_never_too_many(full: int, moments: list[float]) -> None:
    limit = SlowStart(FixedLimit(full))
    limit.begin(0.0)
    before = limit.seats
    assert before == min(full, max(1, full // 10))
    for now in sorted(moments):
        more = limit.advance(now)
        assert more == (limit.seats > before)
        assert before <= limit.seats <= full
        before = limit.seats
    limit.advance(20.0)
    assert limit.seats == full


@pytest.mark.parametrize(("seconds", "share"), [(0, 0.1), (-1, 0.1), (10, -0.1), (10, 1.1)])
def test_what_cannot_be_is_an_error(seconds: float, share: float) -> None:
    with pytest.raises(ValueError, match="cannot open"):
        SlowStart(FixedLimit(1), seconds, share)


@pytest.mark.parametrize(("share", "at_first"), [(0.0, 1), (1.0, 50)])
def test_it_may_open_from_next_to_nothing_or_all_at_once_and_in_a_moment(
    share: float, at_first: int
) -> None:
    limit = SlowStart(FixedLimit(50), 0.5, share)
    limit.begin(7.0)
    assert limit.seats == at_first
    limit.advance(7.5)
    assert limit.seats == 50


def test_of_a_shared_limit_it_opens_a_part_of_what_is_held_and_of_what_can_be() -> None:
    limit = SlowStart(MovableLimit(20, ceiling=40, shared=True))
    assert (limit.seats, limit.widest, limit.held, limit.ceiling) == (20, 40, 20, 40)
    limit.begin(0.0)
    assert (limit.seats, limit.widest, limit.held, limit.ceiling) == (2, 4, 20, 40)

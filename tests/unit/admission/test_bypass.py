"""How long a head that does not fit is passed: see the formula at the top of bypass.py."""

from __future__ import annotations

import math

import pytest

from proxy.admission.account import Emptying
from proxy.admission.bypass import Bypass

FULL, WHOLE = 64, Emptying(64, 0)


def passes(emptying: Emptying, left_s: float, mean_hold_s: float = 1.0, most: int = 1000) -> int:
    """How many seats are granted past a head at once, one by one."""
    bypass = Bypass(left_s, emptying, mean_hold_s, now=0.0)
    count = 0
    while count < most and bypass.allows(1, emptying, mean_hold_s, now=0.0):
        bypass.passed(1)
        count += 1
    return count


@pytest.mark.parametrize(
    ("keep", "allowed"), [(0, 64), (32, 16), (48, 4), (56, 1), (57, 0), (63, 0), (64, 0)]
)
def test_the_more_has_to_come_free_the_more_may_pass(keep: int, allowed: int) -> None:
    assert passes(Emptying(FULL, keep), left_s=math.inf) == allowed


def test_a_wide_one_passes_only_as_a_whole() -> None:
    bypass = Bypass(math.inf, Emptying(8, 0), 1.0, now=0.0)
    assert not bypass.allows(9, WHOLE, 1.0, now=0.0)
    assert bypass.allows(8, WHOLE, 1.0, now=0.0)
    bypass.passed(1)
    assert not bypass.allows(8, WHOLE, 1.0, now=0.0)


def test_room_is_kept_once_half_of_what_is_left_is_needed_to_empty_the_engine() -> None:
    needed_s = 2 * math.log(65.5 / 0.5)
    assert passes(WHOLE, left_s=needed_s + 0.01) == 64
    assert passes(WHOLE, left_s=needed_s - 0.01) == 0
    bypass = Bypass(100.0, WHOLE, 1.0, now=0.0)
    assert bypass.allows(1, WHOLE, 1.0, now=100 - needed_s - 0.01)
    assert not bypass.allows(1, WHOLE, 1.0, now=100 - needed_s + 0.01)
    assert bypass.allows(1, Emptying(8, 0), 1.0, now=100 - needed_s + 0.01)


def test_who_cannot_be_served_in_time_stops_nobody() -> None:
    assert passes(WHOLE, left_s=5.0, mean_hold_s=6.25) == 0, "it might just be served"
    assert passes(WHOLE, left_s=5.0, mean_hold_s=6.26) == 1000


def test_where_no_more_than_one_seat_may_pass_nobody_is_stopped_in_vain_either() -> None:
    assert passes(Emptying(FULL, 56), left_s=1.0, mean_hold_s=10.01) == 1000
    assert passes(Emptying(FULL, 56), left_s=1.0, mean_hold_s=10.0) == 0


def test_of_one_seat_that_must_come_free_one_is_given_away_before() -> None:
    assert passes(Emptying(1, 0), left_s=math.inf) == 1


def test_who_leaves_the_head_its_room_passes_until_the_last_moment() -> None:
    bypass = Bypass(5.0, WHOLE, 1.0, now=0.0)
    assert bypass.allows(1, Emptying(2, 3), 1.0, now=5.0)


def test_it_is_decided_once_whether_there_is_a_chance() -> None:
    bypass = Bypass(5.0, WHOLE, 1.0, now=0.0)
    assert not bypass.allows(1, WHOLE, 1.0, now=4.9), "what was kept so far is not given away"


def test_for_a_few_seats_room_is_kept_even_without_much_hope() -> None:
    assert passes(Emptying(FULL, 60), left_s=0.1, mean_hold_s=10.0) == 0


def test_nobody_passes_while_nobody_can_tell_how_long_seats_are_held() -> None:
    assert passes(WHOLE, left_s=5.0, mean_hold_s=math.inf) == 0
    assert passes(WHOLE, left_s=math.inf, mean_hold_s=math.inf) == 0
    assert passes(Emptying(0, 0), left_s=5.0) == 0

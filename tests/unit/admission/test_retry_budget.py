from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.admission.retry_budget import DEFAULT_SHARE, FIRST_TICKETS, RetryBudget


def drawn(budget: RetryBudget, now: float) -> int:
    """How many tickets can be drawn now."""
    count = 0
    while budget.draw(now):
        count += 1
    return count


def test_there_are_a_few_tickets_at_first() -> None:
    assert drawn(RetryBudget(0.2), 0.0) == FIRST_TICKETS


def test_without_a_share_there_are_none_at_all() -> None:
    budget = RetryBudget(0.0)
    budget.admitted(0.0)
    assert drawn(budget, 0.0) == 0


def test_every_fifth_admission_pays_for_a_ticket() -> None:
    budget = RetryBudget(0.2)
    drawn(budget, 0.0)
    for _ in range(51):
        budget.admitted(0.0)
    assert drawn(budget, 0.0) == 10


def test_what_calm_hours_saved_is_no_store_for_a_storm() -> None:
    budget = RetryBudget(0.2)
    for second in range(3600):
        for _ in range(10):
            budget.admitted(float(second))
        if second % 7 == 0:
            budget.redeem(float(second))
    assert drawn(budget, 3600.0) == pytest.approx(FIRST_TICKETS + 2 * 10, abs=2)


@pytest.mark.parametrize("quiet_s", [0.0, 3600.0, 1e7])
def test_a_storm_after_a_long_quiet_time_earns_as_many_as_any_other(quiet_s: float) -> None:
    budget = RetryBudget(0.2)
    for tenth in range(20):
        for _ in range(10):
            budget.admitted(quiet_s + tenth / 10)
    assert drawn(budget, quiet_s + 2.0) == pytest.approx(FIRST_TICKETS + 0.2 * 200, abs=5)


def test_a_fifth_of_five_is_one_and_of_four_is_none() -> None:
    budget = RetryBudget(0.2)
    drawn(budget, 1000.0)
    for _ in range(4):
        budget.admitted(2000.0)
    assert drawn(budget, 2000.0) == 0
    budget.admitted(2000.0)
    assert drawn(budget, 2000.0) == 1


@pytest.mark.parametrize("served_at", [0.5, 1000.0])
def test_tickets_come_from_admissions_and_not_from_waiting(served_at: float) -> None:
    budget = RetryBudget(0.2)
    drawn(budget, 0.0)
    budget.admitted(served_at)
    assert drawn(budget, 1000.0) == 0


def test_what_was_saved_fades_though_nobody_comes_any_more() -> None:
    budget = RetryBudget(0.2)
    for _ in range(100):
        budget.admitted(0.0)
    assert budget.draw(0.0)
    assert drawn(budget, 10.0) == 16  # 10 and 19 / e


@pytest.mark.parametrize("later", [0, 1])
def test_what_is_left_of_a_ticket_beyond_the_first_few_fades_too(later: int) -> None:
    budget = RetryBudget(0.2)
    for _ in range(4):
        budget.admitted(0.0)
    for _ in range(later):
        budget.admitted(200.0)
    assert drawn(budget, 200.0) == FIRST_TICKETS
    budget.admitted(200.0)
    assert drawn(budget, 200.0) == 0


@pytest.mark.parametrize("meanwhile", [0, 1])
def test_a_part_of_a_ticket_fades_whether_or_not_anybody_is_served_meanwhile(
    meanwhile: int,
) -> None:
    budget = RetryBudget(0.2)
    for _ in range(9):
        budget.admitted(0.0)
    assert budget.draw(0.0)  # 10.8 are left
    for _ in range(meanwhile):
        budget.admitted(0.5)
    assert drawn(budget, 200.0) == FIRST_TICKETS
    for _ in range(3):
        budget.admitted(200.0)
    assert drawn(budget, 200.0) == 0


def test_admissions_of_a_second_are_worth_what_is_left_of_them_at_its_end() -> None:
    budget = RetryBudget(0.2)
    drawn(budget, 0.0)
    for number in range(100):
        budget.admitted(number / 100)
    assert drawn(budget, 1.0) == 19  # 20 (1 - exp(-0.1)) / 0.1


def test_a_burst_after_a_pause_of_more_than_a_second_counts_in_full() -> None:
    budget = RetryBudget(0.2)
    drawn(budget, 0.0)
    for _ in range(100):
        budget.admitted(1.1)
    assert drawn(budget, 1.1) == 20


def test_another_one_has_the_share_and_nothing_else() -> None:
    budget = RetryBudget(0.5)
    drawn(budget, 0.0)
    another = budget.another()
    assert drawn(another, 0.0) == FIRST_TICKETS
    for _ in range(10):
        another.admitted(0.0)
    assert drawn(another, 0.0) == 5


def test_the_first_tickets_do_not_fade() -> None:
    assert drawn(RetryBudget(0.2), 1e6) == FIRST_TICKETS


def test_a_retry_is_an_invited_one_as_often_as_tickets_are_out() -> None:
    budget = RetryBudget(0.2)
    assert not budget.redeem(0.0)
    budget.draw(0.0)
    budget.draw(0.0)
    assert [budget.redeem(1.0) for _ in range(3)] == [True, True, False]


def test_a_ticket_that_does_not_come_back_is_forgotten() -> None:
    budget = RetryBudget(0.2)
    budget.draw(0.0)
    assert budget.outstanding(0.0) == 1.0
    assert budget.outstanding(55.0) == pytest.approx(0.368, abs=0.001)
    assert not budget.redeem(60.0)
    assert budget.outstanding(60.0) == pytest.approx(0.336, abs=0.001)


def test_tickets_are_out_from_the_moment_they_are_drawn_and_fade_once() -> None:
    budget = RetryBudget(0.2)
    for _ in range(2):
        budget.draw(100.0)
    assert budget.outstanding(101.0) == pytest.approx(2 * math.exp(-1 / 55))
    assert budget.redeem(130.0)
    left = 2 * math.exp(-30 / 55) - 1
    assert budget.outstanding(130.0) == pytest.approx(left)
    assert budget.outstanding(185.0) == pytest.approx(left / math.e)


def test_an_invitation_can_be_looked_at_without_taking_it() -> None:
    budget = RetryBudget(0.2)
    assert not budget.is_invited(0.0)
    budget.draw(0.0)
    assert budget.is_invited(0.0)
    assert budget.is_invited(0.0)
    assert budget.redeem(0.0)
    assert not budget.is_invited(0.0)


def test_a_share_below_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        RetryBudget(-0.1)


@given(st.floats(0, 1), st.lists(st.tuples(st.booleans(), st.floats(0, 30, allow_nan=False))))
def test_never_more_are_invited_than_the_share_of_those_served_and_the_first_few(
    share: float, events: list[tuple[bool, float]]
) -> None:
    budget = RetryBudget(share)
    now, admissions, invited = 0.0, 0, 0
    for is_admission, pause_s in events:
        now += pause_s
        if is_admission:
            admissions += 1
            budget.admitted(now)
        else:
            invited += budget.draw(now)
        assert invited <= FIRST_TICKETS + share * admissions + 1e-6
        assert 0 <= budget.outstanding(now) <= invited


def test_at_first_there_are_ten_and_a_fifth_for_each_admission() -> None:
    assert (FIRST_TICKETS, DEFAULT_SHARE) == (10, 0.2)

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.admission.account import Account, Claim, Emptying
from proxy.admission.ledger import Ledger
from proxy.admission.limits.slow_start import SlowStart
from proxy.admission.outcome import Load, Reason
from proxy.admission.placement.roomiest import Roomiest
from proxy.admission.token_budget import TokenBudgets
from tests.support.admission import FirstOfTies, MovableLimit

if TYPE_CHECKING:
    from collections.abc import Sequence

DOWN = Reason.UPSTREAM_UNAVAILABLE


class LastOne:
    """A placement that takes the last of those that it is shown."""

    def choose(
        self,
        accounts: Sequence[Account],
        width: int,
        prompt_tokens: int = 0,
        kv_tokens: int = 0,
        affinity: int | None = None,
    ) -> Account | None:
        assert (width, prompt_tokens, kv_tokens, affinity) == (1, 0, 0, 7)
        return accounts[-1]


def ledger_of(**limits: int) -> Ledger:
    """Of several upstreams that are equally free the first is taken."""
    each = {name: MovableLimit(seats) for name, seats in limits.items()}
    return Ledger(each, placement=Roomiest(FirstOfTies()))


def taken(ledger: Ledger) -> dict[str, int]:
    return {upstream.name: upstream.in_flight for upstream in ledger.snapshot()}


def test_seats_are_taken_until_the_limit_and_not_beyond() -> None:
    ledger = ledger_of(a=3)
    assert ledger.take(2) == Claim("a", 2)
    assert ledger.take(2) is None
    assert ledger.take(1) == Claim("a", 1)
    assert ledger.take(1) is None
    assert taken(ledger) == {"a": 3}


def test_seats_given_back_are_free_again() -> None:
    ledger = ledger_of(a=1)
    ledger.take(1)
    ledger.give_back(Claim("a", 1))
    assert ledger.has_room(1)
    assert taken(ledger) == {"a": 0}


def test_a_request_wider_than_the_limit_takes_the_whole_of_it_and_only_when_empty() -> None:
    ledger = ledger_of(a=4)
    ledger.take(1)
    assert ledger.take(12) is None
    ledger.give_back(Claim("a", 1))
    assert ledger.take(12) == Claim("a", 4)


def test_a_limit_of_zero_has_room_for_nobody() -> None:
    ledger = ledger_of(a=0)
    assert not ledger.has_room(1)
    assert ledger.take(1) is None


def test_a_limit_lowered_below_what_is_taken_has_no_room_until_below() -> None:
    limit = MovableLimit(4)
    ledger = Ledger({"a": limit})
    ledger.take(4)
    limit.seats = 2
    ledger.give_back(Claim("a", 1))
    ledger.give_back(Claim("a", 1))
    assert not ledger.has_room(1)
    ledger.give_back(Claim("a", 1))
    assert ledger.has_room(1)


def test_the_upstream_with_the_largest_free_share_is_taken() -> None:
    ledger = ledger_of(small=2, large=10)
    ledger.take(1)
    assert taken(ledger) == {"small": 1, "large": 0}
    for _ in range(4):  # free shares of `large`: 1.0, 0.9, 0.8, 0.7; `small` stays at 0.5
        assert ledger.take(1) == Claim("large", 1)


def test_an_upstream_too_full_for_the_request_is_passed_over() -> None:
    ledger = ledger_of(small=2, large=10)
    ledger.take(1)  # small
    ledger.take(7)  # large: 0.3 free, but 3 seats
    assert ledger.take(3) == Claim("large", 3)


def test_a_wide_request_waits_for_the_engine_that_is_wide_enough() -> None:
    ledger = ledger_of(small=2, large=4)
    ledger.take(1)
    ledger.take(1)
    assert taken(ledger) == {"small": 1, "large": 1}
    ledger.give_back(Claim("small", 1))
    assert ledger.width(4) == 4
    assert ledger.take(4) is None
    ledger.give_back(Claim("large", 1))
    assert ledger.take(4) == Claim("large", 4)


def test_a_suspended_upstream_gives_nothing_out_but_takes_seats_back() -> None:
    ledger = ledger_of(a=2)
    ledger.take(1)
    ledger.suspend("a", DOWN)
    assert not ledger.is_usable
    assert ledger.take(1) is None
    assert ledger.usable_limit == 0
    ledger.give_back(Claim("a", 1))
    assert taken(ledger) == {"a": 0}
    ledger.resume("a")
    assert ledger.take(2) == Claim("a", 2)


def test_sums_cover_the_upstreams_in_use() -> None:
    ledger = ledger_of(a=2, b=4)
    ledger.take(1)
    ledger.take(1)
    assert (ledger.usable_taken, ledger.usable_limit) == (2, 6)
    ledger.suspend("a", DOWN)
    assert (ledger.usable_taken, ledger.usable_limit) == (1, 4)


def test_suspending_twice_is_taken_back_by_one_resume() -> None:
    ledger = ledger_of(a=1)
    ledger.suspend("a", DOWN)
    ledger.suspend("a", DOWN)
    ledger.resume("a")
    assert ledger.is_usable


def test_regardless_of_the_limit_the_least_loaded_is_taken() -> None:
    ledger = ledger_of(a=1, b=2)
    for _ in range(3):
        ledger.take(1)
    assert ledger.take_regardless(1) == Claim("a", 1)  # both full: the first
    assert ledger.take_regardless(1) == Claim("b", 1)  # 200 % against 100 %
    assert taken(ledger) == {"a": 2, "b": 3}


def test_seats_taken_regardless_of_a_limit_of_zero_are_counted() -> None:
    ledger = ledger_of(a=0)
    assert ledger.take_regardless(3) == Claim("a", 3)
    assert taken(ledger) == {"a": 3}


def test_nothing_is_taken_regardless_of_suspension() -> None:
    ledger = ledger_of(a=1)
    ledger.suspend("a", DOWN)
    with pytest.raises(ValueError, match="empty"):
        ledger.take_regardless(1)


@pytest.mark.parametrize(("method", "more"), [("suspend", [DOWN]), ("resume", []), ("release", [])])
def test_an_unknown_upstream_is_an_error(method: str, more: list[Reason]) -> None:
    with pytest.raises(KeyError):
        getattr(ledger_of(a=1), method)("b", *more)


def test_without_an_upstream_there_is_no_room() -> None:
    ledger = Ledger({})
    assert not ledger.is_usable
    assert not ledger.has_free_seat()
    assert ledger.take(1) is None
    assert ledger.width(3) == 0


def test_an_upstream_comes_with_what_is_taken_in_it() -> None:
    one, other = ledger_of(a=3), ledger_of(b=1)
    claim = one.take(2)
    other.take(1)
    other.add(one.release("a"))
    assert taken(other) == {"b": 1, "a": 2}
    assert (other.take(1), other.take(1)) == (Claim("a", 1), None)
    assert claim is not None
    assert not one.give_back(claim), "seats came free in the other ledger"
    assert taken(other) == {"b": 1, "a": 1}
    assert other.take(2) == Claim("a", 2)


def test_an_upstream_that_has_left_and_come_back_is_ours_again() -> None:
    ledger = ledger_of(a=2)
    claim = ledger.take(1)
    ledger.add(ledger.release("a"))
    assert ledger.owns("a")
    assert claim is not None
    assert ledger.give_back(claim)
    assert taken(ledger) == {"a": 0}


def test_nothing_is_granted_where_an_upstream_was_released() -> None:
    ledger = ledger_of(a=2, b=1)
    ledger.take(1)
    account = ledger.release("a")
    assert not ledger.owns("a")
    assert [ledger.take(1), ledger.take(1)] == [Claim("b", 1), None]
    assert account.taken == 1


def test_tokens_come_free_in_an_upstream_that_has_left() -> None:
    ledger = Ledger({"a": MovableLimit(9)}, {"a": TokenBudgets(prefill_limit=100, kv_limit=200)})
    claim = ledger.take(1, prompt_tokens=60, kv_tokens=150)
    account = ledger.release("a")
    assert claim is not None
    claim = ledger.prefilled(claim)
    assert (account.budgets.prefill.taken, account.budgets.kv.taken) == (0, 150)
    ledger.give_back(claim)
    assert (account.taken, account.budgets.kv.taken) == (0, 0)


def test_an_upstream_comes_suspended_if_it_was() -> None:
    ledger = ledger_of(a=1, b=1)
    ledger.suspend("a", DOWN)
    other = Ledger({})
    other.add(ledger.release("a"))
    assert not other.is_usable
    other.resume("a")
    assert other.take(1) == Claim("a", 1)


def test_two_upstreams_of_one_name_are_an_error() -> None:
    with pytest.raises(ValueError, match="already"):
        ledger_of(a=1).add(Account("a", MovableLimit(1)))


def test_upstreams_that_have_left_for_good_are_forgotten() -> None:
    ledger = ledger_of(**{f"a{number}": 1 for number in range(100)})
    for number in range(100):
        ledger.release(f"a{number}")
    assert len(ledger._former) == 1


def test_the_placement_chooses_among_those_that_are_usable() -> None:
    limits = {name: MovableLimit(9) for name in "abc"}
    ledger = Ledger(limits, placement=LastOne())
    ledger.suspend("c", DOWN)
    assert ledger.take(1, affinity=7) == Claim("b", 1)


def test_regardless_of_limits_who_may_have_a_seat_at_all_goes_first() -> None:
    ledger = ledger_of(shut=0, a=1)
    for _ in range(3):
        assert ledger.take_regardless(1).upstream == "a"


def test_tokens_are_taken_with_the_seats_and_given_back_with_them() -> None:
    ledger = Ledger({"a": MovableLimit(9)}, {"a": TokenBudgets(prefill_limit=100, kv_limit=200)})
    claim = ledger.take(1, prompt_tokens=60, kv_tokens=150)
    assert claim == Claim("a", 1, 60, 150)
    assert ledger.take(1, prompt_tokens=50, kv_tokens=1) is None
    assert ledger.take(1, prompt_tokens=1, kv_tokens=51) is None
    claim = ledger.prefilled(claim)
    assert claim == Claim("a", 1, 0, 150)
    assert ledger.take(1, prompt_tokens=50, kv_tokens=1) is not None
    ledger.give_back(claim)
    assert ledger.load(3, 5) == Load(1, 9, 3, 5, 50, 100, 1, 200)


def test_tokens_go_where_they_fit_though_another_has_more_seats_free() -> None:
    budgets = {"a": TokenBudgets(kv_limit=10), "b": TokenBudgets(kv_limit=100)}
    limits = {"a": MovableLimit(9), "b": MovableLimit(3)}
    ledger = Ledger(limits, budgets, Roomiest(FirstOfTies()))
    ledger.take(1, kv_tokens=5)
    assert ledger.take(1, kv_tokens=50) == Claim("b", 1, 0, 50)


def test_one_upstream_without_a_limit_leaves_the_sum_without_one() -> None:
    ledger = Ledger({"a": MovableLimit(1), "b": MovableLimit(1)}, {"a": TokenBudgets(kv_limit=9)})
    assert ledger.load(0, 0).kv_limit is None


def test_the_load_is_summed_over_those_that_are_usable() -> None:
    budgets = {name: TokenBudgets(kv_limit=limit) for name, limit in (("a", 9), ("b", 90))}
    ledger = Ledger({"a": MovableLimit(1), "b": MovableLimit(2)}, budgets)
    assert ledger.load(3, 5) == Load(0, 3, 3, 5, kv_limit=99, upstreams=2)
    ledger.suspend("b", DOWN)
    assert ledger.load(3, 5) == Load(0, 1, 3, 5, kv_limit=9, upstreams=1)
    ledger.suspend("a", DOWN)
    assert ledger.load(3, 5) == Load(0, 0, 3, 5, upstreams=0), "no limit of tokens without engines"


def test_a_wide_request_counts_for_what_it_is_while_the_limit_is_low_for_a_time() -> None:
    limit = MovableLimit(1, ceiling=10)
    ledger = Ledger({"a": limit})
    assert ledger.take(8) == Claim("a", 8), "it runs alone"
    limit.seats = 10
    assert ledger.take(3) is None
    assert ledger.take(2) == Claim("a", 2)


def test_what_must_come_free_for_a_wide_request_are_seats() -> None:
    ledger = ledger_of(a=10)
    ledger.take(8)
    assert ledger.emptying(4, kv_tokens=0) == Emptying(8, 6)
    assert ledger.emptying(99, kv_tokens=0) == Emptying(8, 0)


def test_what_must_come_free_for_many_tokens_are_the_seats_that_hold_them() -> None:
    ledger = Ledger({"a": MovableLimit(10)}, {"a": TokenBudgets(kv_limit=1000)})
    for _ in range(8):
        ledger.take(1, kv_tokens=100)
    assert ledger.emptying(1, kv_tokens=600) == Emptying(8, 4)
    assert ledger.emptying(1, kv_tokens=9999) == Emptying(8, 0)


def test_what_must_come_free_is_least_where_most_is_free_and_nothing_without_an_upstream() -> None:
    ledger = ledger_of(a=10, small=2, b=10)
    for _ in range(6):
        ledger.take(3)
    assert taken(ledger) == {"a": 9, "small": 0, "b": 9}
    ledger.give_back(Claim("b", 3))
    assert ledger.emptying(8, kv_tokens=0) == Emptying(6, 2)
    for name in ("a", "small", "b"):
        ledger.suspend(name, DOWN)
    assert ledger.emptying(8, kv_tokens=0) == Emptying(0, 0)


def test_a_free_seat_is_one_that_is_usable() -> None:
    ledger = ledger_of(a=1, b=0)
    assert ledger.has_free_seat()
    ledger.suspend("a", DOWN)
    assert not ledger.has_free_seat()
    ledger.resume("a")
    ledger.take(1)
    assert not ledger.has_free_seat()


def test_of_a_shared_limit_a_wide_request_waits_for_the_seats_of_others() -> None:
    limit = MovableLimit(8, ceiling=32, shared=True)
    ledger = Ledger({"a": limit})
    assert ledger.width(10) == 10
    assert ledger.width(100) == 32
    assert ledger.take(10) is None
    limit.seats = 10
    assert ledger.take(10) == Claim("a", 10)


def test_while_only_a_part_is_open_a_wide_request_takes_no_more_than_is_ours() -> None:
    lease = MovableLimit(30, ceiling=32, shared=True)
    limit = SlowStart(lease)
    limit.begin(0.0)
    ledger = Ledger({"a": limit})
    assert (limit.seats, ledger.width(40)) == (3, 3)
    assert ledger.take(40) is None
    lease.seats = 32
    assert ledger.take(40) == Claim("a", 32)


def test_without_any_seat_of_a_shared_limit_nobody_is_granted_and_nobody_is_lost() -> None:
    ledger = Ledger({"a": MovableLimit(0, ceiling=32, shared=True)})
    assert ledger.width(3) == 3
    assert not ledger.has_room(1)
    assert ledger.take(1) is None
    assert ledger.take(1, affinity=7) is None
    assert ledger.emptying(3, 0) == Emptying(0, 0)


def test_it_knows_why_an_upstream_is_suspended() -> None:
    ledger = Ledger({"a": MovableLimit(1), "b": MovableLimit(1)})
    assert ledger.suspended_for is None
    ledger.suspend("b", Reason.UPSTREAM_STALLED)
    assert ledger.suspended_for is Reason.UPSTREAM_STALLED


def test_while_an_engine_is_shut_nobody_is_granted_there() -> None:
    limit = SlowStart(MovableLimit(4))
    limit.shut()
    ledger = Ledger({"a": limit})
    assert ledger.width(1) == 0
    assert ledger.take(1) is None
    assert not ledger.has_room(1)


def test_there_is_room_where_one_of_several_has_it() -> None:
    ledger = ledger_of(a=1, b=1)
    ledger.take(1)
    assert ledger.has_room(1)


def test_what_must_come_free_is_least_where_fewest_have_to_leave_however_many_are_there() -> None:
    ledger = ledger_of(a=8, b=4)
    for seats in (1, 3, 5):
        ledger.take(seats)
    assert taken(ledger) == {"a": 6, "b": 3}
    assert ledger.emptying(2, kv_tokens=0) == Emptying(6, 6)


def test_the_tokens_of_a_prompt_come_back_though_no_others_were_taken() -> None:
    ledger = Ledger({"a": MovableLimit(4)}, {"a": TokenBudgets(prefill_limit=10)})
    claim = ledger.take(1, prompt_tokens=5)
    assert claim is not None
    ledger.give_back(claim)
    assert ledger.load(0, 0).prefill_tokens == 0


def test_tokens_are_limited_where_one_engine_limits_them() -> None:
    budgets = {"a": TokenBudgets(kv_limit=10)}
    ledger = Ledger({"a": MovableLimit(4), "b": MovableLimit(4)}, budgets)
    assert ledger.limits_tokens
    ledger.suspend("a", DOWN)
    assert not ledger.limits_tokens

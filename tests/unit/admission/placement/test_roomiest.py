from __future__ import annotations

import random
from collections import Counter

from proxy.admission.account import Account
from proxy.admission.placement.roomiest import Roomiest
from proxy.admission.token_budget import TokenBudgets
from tests.support.admission import MovableLimit


def accounts(**limits: tuple[int, int]) -> list[Account]:
    """Of each, the seats taken and the seats that there are."""
    each = []
    for name, (taken, seats) in limits.items():
        account = Account(name, MovableLimit(seats))
        account.taken = taken
        each.append(account)
    return each


def chosen(each: list[Account], width: int = 1) -> str | None:
    account = Roomiest(random.Random(1)).choose(each, width)
    return account.name if account else None


def test_the_largest_free_share_goes_first_not_the_most_seats() -> None:
    assert chosen(accounts(small=(1, 4), large=(40, 100))) == "small"
    assert chosen(accounts(small=(3, 4), large=(40, 100))) == "large"


def test_one_in_which_the_request_does_not_fit_is_passed_over() -> None:
    assert chosen(accounts(small=(0, 2), large=(90, 100)), width=3) == "large"


def test_one_without_seats_or_over_its_limit_is_never_chosen() -> None:
    assert chosen(accounts(none=(0, 0), over=(9, 4), full=(4, 4))) is None


def test_one_without_room_for_the_tokens_is_passed_over() -> None:
    each = accounts(a=(0, 9), b=(5, 9))
    each[0].budgets = TokenBudgets(kv_limit=10)
    each[0].budgets.kv.taken = 5
    account = Roomiest(random.Random(1)).choose(each, 1, 0, 6)
    assert account is each[1]


def test_who_says_nothing_of_tokens_is_placed_where_none_are_left() -> None:
    for full in (TokenBudgets(prefill_limit=9), TokenBudgets(kv_limit=9)):
        each = accounts(a=(0, 9), b=(5, 9))
        each[0].budgets = full
        full.prefill.taken = full.kv.taken = 9
        assert chosen(each) == "a"


def test_ties_are_drawn_by_lot() -> None:
    rng = random.Random(7)
    each = accounts(a=(1, 4), b=(2, 8), c=(3, 12), fuller=(2, 4))
    placement = Roomiest(rng)
    picked: Counter[str] = Counter()
    for _ in range(3000):
        account = placement.choose(each, 1)
        assert account is not None
        picked[account.name] += 1
    assert set(picked) == {"a", "b", "c"}
    assert min(picked.values()) > 900


def test_of_two_that_are_equal_each_gets_some() -> None:
    placement, each = Roomiest(random.Random(7)), accounts(a=(1, 4), b=(1, 4))
    assert {placement.choose(each, 1) for _ in range(50)} == set(each)


def test_load_evens_out_by_share() -> None:
    each = accounts(a=(0, 10), b=(0, 20), c=(0, 40))
    placement = Roomiest(random.Random(7))
    for _ in range(35):
        account = placement.choose(each, 1)
        assert account is not None
        account.taken += 1
    assert [account.taken for account in each] == [5, 10, 20]

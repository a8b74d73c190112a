from __future__ import annotations

from proxy.admission.token_budget import TokenBudget, TokenBudgets


def test_without_a_limit_everything_fits_and_is_counted_as_it_is() -> None:
    budget = TokenBudget(None)
    budget.taken = 10**9
    assert budget.charge(10**9) == 10**9
    assert budget.has_room(10**9)


def test_so_much_fits_as_the_limit_leaves() -> None:
    budget = TokenBudget(100)
    budget.taken = 60
    assert budget.has_room(40)
    assert not budget.has_room(41)


def test_more_than_the_limit_takes_the_whole_of_it() -> None:
    budget = TokenBudget(100)
    assert budget.charge(101) == 100
    assert budget.has_room(budget.charge(10**9))


def test_the_largest_share_leaves_room_beside_a_giant() -> None:
    budget = TokenBudget(100, largest_share=0.75)
    assert budget.charge(74) == 74
    assert budget.charge(76) == 75


def test_nothing_fits_even_where_a_limit_was_lowered_below_what_is_taken() -> None:
    budget = TokenBudget(100)
    budget.taken = 100
    budget.limit = 10
    assert budget.has_room(0)
    assert not budget.has_room(1)


def test_the_budgets_of_an_engine_are_unlimited_unless_told() -> None:
    budgets = TokenBudgets(kv_limit=7)
    assert (budgets.prefill.limit, budgets.kv.limit) == (None, 7)


def test_what_is_taken_moves_to_other_budgets_and_is_counted_once() -> None:
    budgets, others = TokenBudgets(), TokenBudgets(kv_limit=7)
    budgets.prefill.taken, budgets.kv.taken = 2, 5
    others.take_over(budgets)
    assert (others.prefill.taken, others.kv.taken) == (2, 5)
    assert (budgets.prefill.taken, budgets.kv.taken) == (0, 0)


def test_one_limit_is_enough_to_limit_something() -> None:
    assert not TokenBudgets().limits_anything
    assert TokenBudgets(prefill_limit=7).limits_anything
    assert TokenBudgets(kv_limit=7).limits_anything

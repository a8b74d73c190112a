from __future__ import annotations

from proxy.admission.account import Account, Claim, Emptying
from proxy.admission.outcome import Reason
from proxy.admission.token_budget import TokenBudgets
from tests.support.admission import MovableLimit


def test_seats_are_counted_as_they_are_taken() -> None:
    account = Account("a", MovableLimit(4))
    assert account.take(3, 0, 0) == Claim("a", 3)
    assert account.taken == 3
    assert account.free_share() == 0.25


def test_no_request_takes_more_than_the_limit_can_ever_be() -> None:
    account = Account("a", MovableLimit(1, ceiling=8))
    assert account.take(20, 0, 0) == Claim("a", 8)


def test_what_is_taken_above_a_limit_counts_below_nothing() -> None:
    limit = MovableLimit(4)
    account = Account("a", limit)
    account.take(4, 0, 0)
    limit.seats = 2
    assert account.free_share() == -1.0
    limit.seats = 0
    assert account.free_share() == -4.0


def test_tokens_are_counted_only_where_they_are_told() -> None:
    account = Account("a", MovableLimit(9), TokenBudgets(prefill_limit=100, kv_limit=200))
    assert account.has_tokens(75, 200)
    assert account.take(1, 70, 150) == Claim("a", 1, 70, 150)
    assert not account.has_tokens(31, 0)
    assert not account.has_tokens(0, 51)
    assert account.has_tokens(0, 0)
    assert account.take(1, 0, 0) == Claim("a", 1)


def test_what_must_come_free_are_seats_or_those_that_hold_the_tokens() -> None:
    account = Account("a", MovableLimit(10), TokenBudgets(kv_limit=1000))
    for _ in range(8):
        account.take(1, 0, 100)
    assert account.emptying(4, 0) == Emptying(8, 6.0)
    assert account.emptying(1, 600) == Emptying(8, 4.0)


def test_it_is_empty_when_neither_a_request_nor_a_ghost_is_there() -> None:
    account = Account("a", MovableLimit(1))
    assert account.is_empty
    account.take(1, 0, 0)
    assert not account.is_empty
    account.taken = 0
    account.ghost = Account("a", account.limit)
    account.ghost.take(1, 0, 0)
    assert not account.is_empty
    account.ghost.taken = 0
    assert account.is_empty


def test_it_shows_what_is_taken_and_whether_anything_is_granted() -> None:
    account = Account("a", MovableLimit(4), TokenBudgets(prefill_limit=10, kv_limit=20))
    account.take(2, 3, 5)
    account.suspended_for = Reason.UPSTREAM_STALLED
    seen = account.snapshot()
    assert (seen.name, seen.in_flight, seen.limit, seen.suspended) == ("a", 2, 4, True)
    assert (seen.prefill_tokens, seen.kv_tokens) == (3, 5)


def test_a_ghost_has_the_limits_of_tokens_and_what_runs_stays_with_the_account() -> None:
    limits = TokenBudgets(kv_limit=100)
    account = Account("a", MovableLimit(4), limits)
    account.take(1, 0, 60)
    ghost = account.with_ghost()
    assert account.with_ghost() is ghost
    assert ghost.budgets is limits
    assert (ghost.budgets.kv.taken, account.budgets.kv.taken) == (0, 60)
    assert account.budgets.kv.limit is None


def test_an_account_without_its_ghost_is_what_it_was() -> None:
    limits = TokenBudgets(kv_limit=100)
    account = Account("a", MovableLimit(4), limits)
    ghost = account.with_ghost()
    account.take(2, 0, 150)
    ghost.take(1, 0, 50)
    account.drop_ghost()
    account.drop_ghost()
    assert account.budgets is limits
    assert (account.ghost, limits.kv.taken, account.taken) == (None, 150, 2)
    ghost.budgets.kv.taken -= 50  # it ends, and takes nothing from the account's
    assert limits.kv.taken == 150


def test_tokens_that_are_only_counted_keep_nobody_from_its_seats() -> None:
    account = Account("a", MovableLimit(10))
    account.take(8, 0, 900)
    assert account.emptying(4, 5000) == Emptying(8, 6.0)


def test_what_holds_no_token_frees_none_and_what_holds_the_last_one_does() -> None:
    account = Account("a", MovableLimit(10), TokenBudgets(kv_limit=1))
    account.take(8, 0, 0)
    assert account.emptying(4, 1) == Emptying(8, 6.0)
    account.take(1, 0, 1)
    assert account.emptying(4, 1) == Emptying(9, 0.0)


def test_a_limit_that_can_only_be_nothing_holds_nobody() -> None:
    assert not Account("a", MovableLimit(0)).holds(1)


def test_a_claim_on_seats_alone_is_on_no_tokens() -> None:
    assert Claim("a", 3)[2:] == (0, 0)

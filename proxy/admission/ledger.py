"""What is taken and what is free, per upstream. Every change is one synchronous step."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from proxy.admission.account import Account, Claim, Emptying
from proxy.admission.outcome import Load
from proxy.admission.placement.roomiest import Roomiest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.admission.outcome import Reason
    from proxy.admission.ports import Limit, Placement
    from proxy.admission.snapshot import UpstreamSnapshot
    from proxy.admission.token_budget import TokenBudget, TokenBudgets


class Ledger:
    """Counts the seats of its upstreams, all of them usable until one is suspended.

    `budgets` bound tokens too, for the upstreams that it names. `placement` chooses among several
    upstreams. Methods that take the name of an upstream raise KeyError when there is none such.
    """

    __slots__ = ("_accounts", "_former", "_placement", "_usable")

    def __init__(
        self,
        limits: Mapping[str, Limit],
        budgets: Mapping[str, TokenBudgets] | None = None,
        placement: Placement | None = None,
    ) -> None:
        named = budgets or {}
        self._placement = placement or Roomiest(random.Random())
        self._accounts = {
            name: Account(name, limit, named.get(name)) for name, limit in limits.items()
        }
        self._former: dict[str, Account] = {}
        self._usable = list(self._accounts.values())

    def add(self, account: Account) -> None:
        """With what is taken in it. Raises ValueError when there is one of that name."""
        if account.name in self._accounts:
            raise ValueError(f"there is an upstream {account.name} already")
        self._accounts[account.name] = account
        self._refresh_usable()

    def release(self, upstream: str) -> Account:
        """Grants nothing there any more. What is taken of it may still be given back here."""
        self._former = {name: one for name, one in self._former.items() if one.taken}
        account = self._former[upstream] = self._accounts.pop(upstream)
        self._refresh_usable()
        return account

    def owns(self, upstream: str) -> bool:
        return upstream in self._accounts

    def width(self, seats: int) -> int:
        """What must be free for a request for `seats`: no more than the widest usable limit has.

        So a request wider than every limit gets a whole engine to itself, and one that only the
        smaller engines are too small for waits for the larger.
        """
        widest = 0
        for account in self._usable:
            limit = account.limit
            if limit.seats >= seats or limit.widest >= seats:  # the first nearly always says it
                return seats
            widest = max(widest, limit.widest)
        return widest

    def take(
        self,
        seats: int,
        prompt_tokens: int = 0,
        kv_tokens: int = 0,
        affinity: int | None = None,
    ) -> Claim | None:
        """Takes seats and tokens where the width fits, in the upstream that the placement chooses;
        None where not all of it fits. A request wider than a limit takes the whole of it."""
        if len(self._usable) == 1 and not (prompt_tokens or kv_tokens):
            account = self._usable[0]  # nearly always, and there is nothing to choose
            if seats <= account.limit.seats - account.taken:
                account.taken += seats
                return Claim(account.name, seats)
        width = self.width(seats)
        if width == 0:
            return None
        usable = self._usable
        if width < seats:
            usable = [account for account in usable if account.holds(seats)]
        chosen = self._placement.choose(usable, width, prompt_tokens, kv_tokens, affinity)
        return None if chosen is None else chosen.take(seats, prompt_tokens, kv_tokens)

    def take_regardless(self, seats: int, prompt_tokens: int = 0, kv_tokens: int = 0) -> Claim:
        """As take(), but over the limit rather than not at all.

        Raises ValueError when no upstream is usable.
        """
        account = max(self._usable, key=lambda one: (one.limit.seats > 0, one.free_share()))
        return account.take(seats, prompt_tokens, kv_tokens)

    def has_room(self, seats: int) -> bool:
        """Whether seats are free, whatever the tokens; take() may still find those taken."""
        width = self.width(seats)
        return width > 0 and any(
            account.limit.seats - account.taken >= width for account in self._usable
        )

    def has_free_seat(self) -> bool:
        """What has_room(1) says, at a third of the price."""
        for account in self._usable:  # noqa: SIM110 - any() would build a generator each time
            if account.taken < account.limit.seats:
                return True
        return False

    def emptying(self, seats: int, kv_tokens: int) -> Emptying:
        """What has to come free for such a request, where that is least; tokens of prompts are
        left out, for they come free long before the seats. No upstream, nothing to empty."""
        width = self.width(seats)
        wide_enough = [one for one in self._usable if one.limit.widest >= width]
        each = [account.emptying(width, kv_tokens) for account in wide_enough]
        return min(each, key=lambda one: one.taken - one.keep, default=Emptying(0, 0.0))

    def give_back(self, claim: Claim) -> bool:
        """An upstream may get its own back while it is suspended. False when it is somebody else's
        by now: there, not here, seats have come free."""
        account = self._accounts.get(claim.upstream)
        is_ours = account is not None
        if account is None:
            account = self._former[claim.upstream]
        account.taken -= claim.seats
        if claim.prefill_tokens or claim.kv_tokens:
            account.budgets.prefill.taken -= claim.prefill_tokens
            account.budgets.kv.taken -= claim.kv_tokens
        return is_ours

    def prefilled(self, claim: Claim) -> Claim:
        """The first byte is there: the prompt's tokens are free. Returns what is left."""
        account = self._accounts.get(claim.upstream) or self._former[claim.upstream]
        account.budgets.prefill.taken -= claim.prefill_tokens
        return claim._replace(prefill_tokens=0)

    def suspend(self, upstream: str, reason: Reason) -> None:
        self._accounts[upstream].suspended_for = reason
        self._refresh_usable()

    def resume(self, upstream: str) -> None:
        self._accounts[upstream].suspended_for = None
        self._refresh_usable()

    @property
    def is_usable(self) -> bool:
        """Whether at least one upstream is not suspended."""
        return bool(self._usable)

    @property
    def suspended_for(self) -> Reason | None:
        """Why one of its upstreams is; None when none is."""
        reasons = (account.suspended_for for account in self._accounts.values())
        return next((reason for reason in reasons if reason is not None), None)

    @property
    def usable_limit(self) -> int:
        usable = self._usable
        return usable[0].limit.seats if len(usable) == 1 else sum([a.limit.seats for a in usable])

    @property
    def usable_taken(self) -> int:
        usable = self._usable
        return usable[0].taken if len(usable) == 1 else sum([a.taken for a in usable])

    @property
    def limits_tokens(self) -> bool:
        return any(account.budgets.limits_anything for account in self._usable)

    def load(self, queue_depth: int, max_queue_depth: int) -> Load:
        """Sums over the usable upstreams; a limit of tokens is None when any of them has none."""
        places = queue_depth, max_queue_depth
        if len(self._usable) == 1:  # nearly always, and in a flood everybody is told
            (account,) = self._usable
            prefill, kv = account.budgets.prefill, account.budgets.kv
            seats = account.taken, account.limit.seats
            return Load(*seats, *places, prefill.taken, prefill.limit, kv.taken, kv.limit)
        prefill_tokens, prefill_limit = _sum_of([one.budgets.prefill for one in self._usable])
        kv_tokens, kv_limit = _sum_of([one.budgets.kv for one in self._usable])
        tokens = prefill_tokens, prefill_limit, kv_tokens, kv_limit
        return Load(self.usable_taken, self.usable_limit, *places, *tokens, len(self._usable))

    def snapshot(self) -> tuple[UpstreamSnapshot, ...]:
        return tuple(account.snapshot() for account in self._accounts.values())

    def _refresh_usable(self) -> None:
        self._usable = [one for one in self._accounts.values() if one.suspended_for is None]


def _sum_of(budgets: list[TokenBudget]) -> tuple[int, int | None]:
    """Tokens taken, and of how many."""
    limits = [budget.limit for budget in budgets if budget.limit is not None]
    is_limited = bool(budgets) and len(limits) == len(budgets)
    return sum([budget.taken for budget in budgets]), sum(limits) if is_limited else None

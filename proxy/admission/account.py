"""What one upstream has been asked to carry, and what it may carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from proxy.admission.snapshot import UpstreamSnapshot
from proxy.admission.token_budget import TokenBudgets

if TYPE_CHECKING:
    from proxy.admission.outcome import Reason
    from proxy.admission.ports import Limit


class Claim(NamedTuple):
    """So many seats in one upstream, and tokens as far as they are counted."""

    upstream: str
    seats: int
    prefill_tokens: int = 0
    kv_tokens: int = 0


class Emptying(NamedTuple):
    """What has to come free in one upstream for a request: of `taken` seats all but `keep`."""

    taken: int
    keep: float


class Account:
    """Seats and tokens taken in one upstream. `suspended_for` says why nothing is granted there;
    `models`, what it serves, as far as that is known.

    Whoever gives out its seats owns it; it may pass from one owner to another with what is taken.
    """

    __slots__ = ("budgets", "ghost", "limit", "models", "name", "suspended_for", "taken")

    def __init__(self, name: str, limit: Limit, budgets: TokenBudgets | None = None) -> None:
        self.name = name
        self.limit = limit
        self.budgets = budgets or TokenBudgets()
        self.taken = 0
        self.suspended_for: Reason | None = None
        self.models: frozenset[str] | None = None
        self.ghost: Account | None = None
        """In shadow mode: what would have been taken, had the limits been kept."""

    def with_ghost(self) -> Account:
        """Its ghost. A new one has the limits of tokens, and nothing is taken in it yet."""
        if self.ghost is None:
            self.ghost = Account(self.name, self.limit, self.budgets)
            self.budgets = TokenBudgets()
            self.budgets.take_over(self.ghost.budgets)
        return self.ghost

    def drop_ghost(self) -> None:
        """The limits of tokens are its own again. Ghosts that still run give nothing back there."""
        if self.ghost is not None:
            unlimited, self.budgets = self.budgets, self.ghost.budgets
            self.budgets.take_over(unlimited)
            self.ghost.budgets, self.ghost = TokenBudgets(), None

    @property
    def is_empty(self) -> bool:
        """Nobody is there; in shadow mode no ghost is either, which may run longer."""
        return not self.taken and (self.ghost is None or self.ghost.is_empty)

    def free_share(self) -> float:
        """1 when empty, 0 when full, below 0 when more is taken than the limit now allows."""
        limit = self.limit.seats
        return (limit - self.taken) / limit if limit else -float(self.taken)

    def has_tokens(self, prompt_tokens: int, kv_tokens: int) -> bool:
        if not (prompt_tokens or kv_tokens):
            return True
        prefill, kv = self.budgets.prefill, self.budgets.kv
        return prefill.has_room(prefill.charge(prompt_tokens)) and kv.has_room(kv.charge(kv_tokens))

    def emptying(self, width: int, kv_tokens: int) -> Emptying:
        keep: float = self.limit.seats - width
        kv = self.budgets.kv
        if kv.limit is not None and kv.taken > 0:
            keep = min(keep, (kv.limit - kv.charge(kv_tokens)) * self.taken / kv.taken)
        return Emptying(self.taken, max(keep, 0.0))

    def holds(self, seats: int) -> bool:
        """Whether what take() would take is ours, be all of it open now or not."""
        limit = self.limit
        return self.taken + min(seats, limit.ceiling or seats) <= limit.held

    def take(self, seats: int, prompt_tokens: int, kv_tokens: int) -> Claim:
        # Not the width: while the limit is lowered for a time, as in a slow start, a wide request
        # that runs alone would be counted for less than it is, and others join it too soon.
        taken = min(seats, self.limit.ceiling or seats)
        self.taken += taken
        if not (prompt_tokens or kv_tokens):
            return Claim(self.name, taken)
        prefill, kv = self.budgets.prefill, self.budgets.kv
        claim = Claim(self.name, taken, prefill.charge(prompt_tokens), kv.charge(kv_tokens))
        prefill.taken += claim.prefill_tokens
        kv.taken += claim.kv_tokens
        return claim

    def snapshot(self) -> UpstreamSnapshot:
        return UpstreamSnapshot(
            name=self.name,
            in_flight=self.taken,
            limit=self.limit.seats,
            suspended=self.suspended_for is not None,
            prefill_tokens=self.budgets.prefill.taken,
            kv_tokens=self.budgets.kv.taken,
        )

"""What is taken and what is free, per upstream. Every change is one synchronous step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from proxy.admission.snapshot import UpstreamSnapshot
from proxy.admission.token_budget import TokenBudgets

if TYPE_CHECKING:
    from collections.abc import Mapping

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


class _Account:
    __slots__ = ("budgets", "limit", "name", "suspended", "taken")

    def __init__(self, name: str, limit: Limit, budgets: TokenBudgets) -> None:
        self.name = name
        self.limit = limit
        self.budgets = budgets
        self.taken = 0
        self.suspended = False

    def free_share(self) -> float:
        """1 when empty, 0 when full, below 0 when more is taken than the limit now allows."""
        limit = self.limit.seats
        return (limit - self.taken) / limit if limit else -float(self.taken)

    def has_tokens(self, prompt_tokens: int, kv_tokens: int) -> bool:
        prefill, kv = self.budgets.prefill, self.budgets.kv
        return prefill.has_room(prefill.charge(prompt_tokens)) and kv.has_room(kv.charge(kv_tokens))

    def emptying(self, width: int, kv_tokens: int) -> Emptying:
        keep: float = self.limit.seats - width
        kv = self.budgets.kv
        if kv.limit is not None and kv.taken > 0:
            keep = min(keep, (kv.limit - kv.charge(kv_tokens)) * self.taken / kv.taken)
        return Emptying(self.taken, max(keep, 0.0))

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


class Ledger:
    """Counts the seats of one or more upstreams, all of them usable until one is suspended.

    `budgets` bound tokens too, for the upstreams that it names. Methods that take the name of an
    upstream raise KeyError when there is none such.
    """

    __slots__ = ("_accounts", "_usable")

    def __init__(
        self, limits: Mapping[str, Limit], budgets: Mapping[str, TokenBudgets] | None = None
    ) -> None:
        if not limits:
            raise ValueError("no upstream, nothing to count")
        named = budgets or {}
        self._accounts = {
            name: _Account(name, limit, named.get(name) or TokenBudgets())
            for name, limit in limits.items()
        }
        self._usable = list(self._accounts.values())

    def width(self, seats: int) -> int:
        """What must be free for a request for `seats`: no more than the widest usable limit.

        So a request wider than every limit gets a whole engine to itself, and one that only the
        smaller engines are too small for waits for the larger.
        """
        widest = 0
        for account in self._usable:
            limit = account.limit.seats
            if limit >= seats:
                return seats
            widest = max(widest, limit)
        return widest

    def take(self, seats: int, prompt_tokens: int = 0, kv_tokens: int = 0) -> Claim | None:
        """Takes seats and tokens where the width fits and the largest share of seats is free;
        None where not all of it fits. A request wider than a limit takes the whole of it."""
        if len(self._usable) == 1 and not (prompt_tokens or kv_tokens):
            account = self._usable[0]  # nearly always, and there is nothing to choose
            if seats <= account.limit.seats - account.taken:
                account.taken += seats
                return Claim(account.name, seats)
        roomiest = self._roomiest(self.width(seats), prompt_tokens, kv_tokens)
        return None if roomiest is None else roomiest.take(seats, prompt_tokens, kv_tokens)

    def take_regardless(self, seats: int, prompt_tokens: int = 0, kv_tokens: int = 0) -> Claim:
        """As take(), but over the limit rather than not at all.

        Raises ValueError when no upstream is usable.
        """
        account = max(self._usable, key=_Account.free_share)
        return account.take(seats, prompt_tokens, kv_tokens)

    def has_room(self, seats: int) -> bool:
        """Whether seats are free, whatever the tokens; take() may still find those taken."""
        return self._roomiest(self.width(seats), 0, 0) is not None

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
        wide_enough = [one for one in self._usable if one.limit.seats >= width]
        each = [account.emptying(width, kv_tokens) for account in wide_enough]
        return min(each, key=lambda one: one.taken - one.keep, default=Emptying(0, 0.0))

    def give_back(self, claim: Claim) -> None:
        """An upstream may get its own back while it is suspended."""
        account = self._accounts[claim.upstream]
        account.taken -= claim.seats
        account.budgets.prefill.taken -= claim.prefill_tokens
        account.budgets.kv.taken -= claim.kv_tokens

    def prefilled(self, claim: Claim) -> Claim:
        """The first byte is there: the prompt's tokens are free. Returns what is left."""
        self._accounts[claim.upstream].budgets.prefill.taken -= claim.prefill_tokens
        return claim._replace(prefill_tokens=0)

    def suspend(self, upstream: str) -> None:
        self._accounts[upstream].suspended = True
        self._refresh_usable()

    def resume(self, upstream: str) -> None:
        self._accounts[upstream].suspended = False
        self._refresh_usable()

    @property
    def is_usable(self) -> bool:
        """Whether at least one upstream is not suspended."""
        return bool(self._usable)

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

    def usable_tokens(self, kind: str) -> tuple[int, int | None]:
        """Tokens taken and their limit, summed over the usable upstreams; `kind` is `prefill` or
        `kv`. The limit is None when any of them has none."""
        taken, limit = 0, 0
        unlimited = not self._usable
        for account in self._usable:
            budget = account.budgets.prefill if kind == "prefill" else account.budgets.kv
            taken += budget.taken
            unlimited = unlimited or budget.limit is None
            limit += budget.limit or 0
        return taken, None if unlimited else limit

    def snapshot(self) -> tuple[UpstreamSnapshot, ...]:
        return tuple(
            UpstreamSnapshot(
                name=account.name,
                in_flight=account.taken,
                limit=account.limit.seats,
                suspended=account.suspended,
                prefill_tokens=account.budgets.prefill.taken,
                kv_tokens=account.budgets.kv.taken,
            )
            for account in self._accounts.values()
        )

    def _roomiest(self, width: int, prompt_tokens: int, kv_tokens: int) -> _Account | None:
        if width == 0:
            return None
        best, best_share = None, 0.0
        for account in self._usable:
            limit = account.limit.seats
            free = limit - account.taken
            if free < width or free / limit <= best_share:
                continue
            if (prompt_tokens or kv_tokens) and not account.has_tokens(prompt_tokens, kv_tokens):
                continue
            best, best_share = account, free / limit
        return best

    def _refresh_usable(self) -> None:
        self._usable = [each for each in self._accounts.values() if not each.suspended]

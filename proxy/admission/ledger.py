"""What is taken and what is free, per upstream. Every change is one synchronous step."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from proxy.admission.snapshot import UpstreamSnapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.admission.ports import Limit


class Claim(NamedTuple):
    """So many seats in one upstream."""

    upstream: str
    seats: int


class _Account:
    __slots__ = ("limit", "name", "suspended", "taken")

    def __init__(self, name: str, limit: Limit) -> None:
        self.name = name
        self.limit = limit
        self.taken = 0
        self.suspended = False

    def free_share(self) -> float:
        """1 when empty, 0 when full, below 0 when more is taken than the limit now allows."""
        limit = self.limit.seats
        return (limit - self.taken) / limit if limit else -float(self.taken)


class Ledger:
    """Counts the seats of one or more upstreams, all of them usable until one is suspended.

    Methods that take the name of an upstream raise KeyError when there is none such.
    """

    __slots__ = ("_accounts", "_usable")

    def __init__(self, limits: Mapping[str, Limit]) -> None:
        if not limits:
            raise ValueError("no upstream, nothing to count")
        self._accounts = {name: _Account(name, limit) for name, limit in limits.items()}
        self._usable = list(self._accounts.values())

    def width(self, seats: int) -> int:
        """What a request for `seats` really takes: no more than the widest usable limit.

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

    def take(self, seats: int) -> Claim | None:
        """Takes the request's width where the largest share is free; None where nothing fits."""
        width = self.width(seats)
        account = self._roomiest(width)
        if account is None:
            return None
        account.taken += width
        return Claim(account.name, width)

    def take_regardless(self, seats: int) -> Claim:
        """As take(), but over the limit rather than not at all.

        Raises ValueError when no upstream is usable.
        """
        width = self.width(seats) or seats
        account = max(self._usable, key=_Account.free_share)
        account.taken += width
        return Claim(account.name, width)

    def has_room(self, seats: int) -> bool:
        """Whether take() would find room now."""
        return self._roomiest(self.width(seats)) is not None

    def give_back(self, upstream: str, seats: int) -> None:
        """An upstream may get seats back while it is suspended."""
        self._accounts[upstream].taken -= seats

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
        return sum([account.limit.seats for account in self._usable])

    @property
    def usable_taken(self) -> int:
        return sum([account.taken for account in self._usable])

    def snapshot(self) -> tuple[UpstreamSnapshot, ...]:
        return tuple(
            UpstreamSnapshot(account.name, account.taken, account.limit.seats, account.suspended)
            for account in self._accounts.values()
        )

    def _roomiest(self, width: int) -> _Account | None:
        if width == 0:
            return None
        best, best_share = None, 0.0
        for account in self._usable:
            limit = account.limit.seats
            free = limit - account.taken
            if free >= width and free / limit > best_share:
                best, best_share = account, free / limit
        return best

    def _refresh_usable(self) -> None:
        self._usable = [each for each in self._accounts.values() if not each.suspended]

"""The upstream that a request's key belongs to, unless that one carries too much of the load.

Requests with the same key (the beginning of a prompt, or a session) find what the engine has cached
for them. Each upstream has some points on a ring, a key belongs to the next point after its own.
When an upstream comes or goes only the keys of its own points move. No upstream gets more than

    ceil(c * (T + w) * l / L)   seats      T, L  seats taken and seats there are, in all of them
                                           l     seats of this one     w  seats of the request

and c = 5/4: the key of a prompt that everybody sends would otherwise have one engine queue while
others idle. Who does not fit goes on to the next on the ring, so that an overflow has a home too.

Source: V. Mirrokni, M. Thorup, M. Zadimoghaddam: Consistent Hashing with Bounded Loads (2016).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from hashlib import blake2b
from typing import TYPE_CHECKING

from proxy.admission.placement.roomiest import Roomiest

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from proxy.admission.account import Account

_POINTS_EACH = 64
_OVERLOAD = 1.25


def ring_position(key: bytes) -> int:
    """Where a key lies on the ring. The same in every process and on every machine."""
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big")


class BoundedRing:
    """Requests without a key go where most is free."""

    def __init__(self, rng: random.Random) -> None:
        self._roomiest = Roomiest(rng)
        self._accounts: Sequence[Account] = ()
        self._points_of: dict[str, list[int]] = {}
        self._points: list[int] = []
        self._owners: list[Account] = []

    def choose(
        self,
        accounts: Sequence[Account],
        width: int,
        prompt_tokens: int = 0,
        kv_tokens: int = 0,
        affinity: int | None = None,
    ) -> Account | None:
        if affinity is None:
            return self._roomiest.choose(accounts, width, prompt_tokens, kv_tokens)
        if accounts is not self._accounts:
            self._place(accounts)
        seats = sum([account.limit.seats for account in accounts])
        if seats == 0:
            return None
        share = _OVERLOAD * (sum([account.taken for account in accounts]) + width) / seats
        for account in self._from(affinity):
            limit = account.limit.seats
            bound = min(limit, math.ceil(share * limit))
            if account.taken + width <= bound and account.has_tokens(prompt_tokens, kv_tokens):
                return account
        # A wide request may be over every bound and still find its seats.
        return self._roomiest.choose(accounts, width, prompt_tokens, kv_tokens)

    def _place(self, accounts: Sequence[Account]) -> None:
        known = self._points_of
        self._points_of = {one.name: known.get(one.name) or _points(one.name) for one in accounts}
        ring = sorted(
            (point, index)
            for index, account in enumerate(accounts)
            for point in self._points_of[account.name]
        )
        self._points = [point for point, _ in ring]
        self._owners = [accounts[index] for _, index in ring]
        self._accounts = accounts

    def _from(self, position: int) -> Iterator[Account]:
        """Each once, in the order of the ring."""
        start = bisect_left(self._points, position)
        seen: set[str] = set()
        for step in range(len(self._owners)):
            owner = self._owners[(start + step) % len(self._owners)]
            if owner.name not in seen:
                seen.add(owner.name)
                yield owner


def _points(name: str) -> list[int]:
    return [ring_position(b"%d %b" % (number, name.encode())) for number in range(_POINTS_EACH)]

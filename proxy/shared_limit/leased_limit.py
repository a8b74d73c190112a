"""The seats of one engine that this gateway may use now, out of those of all gateways.

A lease is good until LEASE_S after the last word with the store was begun, by a clock that goes on
while the machine sleeps. `seats` looks at that clock at every decision, so that a process that was
stopped, and wakes up, grants nothing before it has heard what it still has. While the store is
away, which is known only by asking it in vain again and again, what is held stays good: nobody can
be given it meanwhile.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from proxy.shared_limit.store import LEASE_S, Renewal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.admission.snapshot import Demand
    from proxy.shared_limit.store import Granted

if hasattr(time, "CLOCK_BOOTTIME"):
    awake_or_asleep: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
else:
    awake_or_asleep = time.monotonic


class LeasedLimit:
    """A Limit. `most`: the seats there are by this gateway's settings; others may know of fewer.

    `gateway` names this process and no other, ever.
    """

    __slots__ = (
        "_clock",
        "_gateway",
        "_good_until",
        "_held",
        "_known",
        "_most",
        "_open",
        "_target",
        "_wanted",
        "ceiling",
    )

    def __init__(
        self, gateway: str, most: int, clock: Callable[[], float] = awake_or_asleep
    ) -> None:
        self.ceiling = most
        self._gateway = gateway
        self._most = most
        self._clock = clock
        self._held = 0
        self._target = 0
        self._wanted = 0
        self._open = 0
        self._good_until = float("-inf")
        self._known: tuple[str, ...] = ()

    @property
    def seats(self) -> int:
        """Of more than its target a gateway gives back what comes free, also while others wait."""
        return self._open if self._clock() <= self._good_until else 0

    @property
    def held(self) -> int:
        return self._held if self._clock() <= self._good_until else 0

    @property
    def widest(self) -> int:
        """A request wider than the lease waits for the seats of others."""
        return self.ceiling

    @property
    def leased(self) -> int:
        """What the store counts for us, usable now or not."""
        return self._held

    def set_most(self, seats: int) -> None:
        """Less is in force here now, and at the other gateways with the next renewal, for the
        smallest limit binds all; so more is there once every gateway has been told."""
        self._most = seats
        self._open = min(self._open, seats)
        self.ceiling = min(self.ceiling, seats) or seats

    def is_urgent(self, demand: Demand) -> bool:
        """Whether the store should hear of us now.

        For those who wait here if seats are ours that others have yet to give back, or if more wait
        than we said, and we were to have all that we said. Who was to have less gets no more by
        asking again. And for others if they wait for seats that are idle here: those above our
        target, and those that nobody needs here any more, if we were offered none in reserve when
        we last said what we want.
        """
        needed = demand.taken + demand.waiting
        if demand.waiting > 0 and needed > self._open:
            has_promise = self._target > self._held
            wants_more = min(needed, self._most) > self._wanted and self._target >= self._wanted
            if has_promise or wants_more:
                return True
        if self._held > max(demand.taken, self._target):
            return True
        return needed < self._held and self._target <= self._wanted

    def renewal(
        self, seq: int, demand: Demand, gone: Mapping[str, int], *, leaves: bool = False
    ) -> Renewal:
        """To be sent now. From this step on no more is used than it says is kept, for nobody knows
        whether the answer will come."""
        # Of seats that may not be used nobody knows whose they are by now.
        self._open = min(self._held, self._target, self._most) if self.held else 0
        self._held = max(demand.taken, self._open)
        self._wanted = min(demand.taken + demand.waiting, self._most)
        return Renewal(
            gateway=self._gateway,
            seq=seq,
            keep=self._held,
            want=self._wanted,
            widest=min(demand.widest, self.ceiling),
            waited_ms=max(0, round(demand.waited_s * 1000)),
            limit=self._most,
            known=self._known,
            gone=gone,
            leaves=leaves,
        )

    def heard(self, granted: Granted, asked_at: float) -> bool:
        """The answer to what was asked at `asked_at`. True when there are more seats than before.

        One that took longer than a lease lasts says nothing about now.
        """
        if self._clock() > asked_at + LEASE_S:
            return False
        before = self.seats
        self._held, self._target = granted.held, granted.target
        self._open = min(granted.held, granted.target, self._most)
        self._known = granted.members
        self.ceiling = granted.limit
        self._good_until = asked_at + LEASE_S
        return self._open > before

    def unheard(self) -> None:
        """The store was asked in vain. Who was not awake all the time, or was told that the store
        is there for others, first has to hear from it."""
        now = self._clock()
        if now <= self._good_until:
            self._good_until = now + LEASE_S

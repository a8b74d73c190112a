"""Renews the leases of this gateway: all of them four times a second, and in between those in which
somebody waits here for what others are to give back, or others wait for what is idle here.

Nothing of it is on the path of a request. While the store is away it asks on; what is held stays
(leased_limit.py). A gateway whose lease is overdue, and whose connection is closed, has died: the
next renewal says so, and its seats are free (lease_rules.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from proxy.admission.snapshot import NO_DEMAND
from proxy.shared_limit.leased_limit import LeasedLimit, awake_or_asleep
from proxy.shared_limit.store import LEASE_S, UNSEEN_S, StoreAwayError, StoreRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.admission.snapshot import Demand
    from proxy.shared_limit.store import Granted, LeaseStore, Overdue, Renewal

_log = logging.getLogger("sluice.shared_limit")

_EVERY_S = 0.25
_LOOKS_EVERY_S = 0.05
_CLOSES_WITHIN_S = 1.0


@dataclass(frozen=True, slots=True)
class SharedState:
    """For people. `trouble`: what the store was last asked in vain for, None while it answers;
    `gateways`: how many hold a lease, this one included; `age_s`: since the store was last heard,
    None before it ever was; `leases`: seats by engine."""

    is_store_up: bool
    trouble: str | None
    gateways: int
    age_s: float | None
    leases: Mapping[str, int]


class LeaseKeeper:
    """`demand_of` says what is needed of an engine; `has_grown` hears that there are more seats."""

    def __init__(
        self,
        store: LeaseStore,
        gateway: str,
        demand_of: Callable[[str], Demand],
        has_grown: Callable[[], None],
        clock: Callable[[], float] = awake_or_asleep,
    ) -> None:
        self._store = store
        self._gateway = gateway
        self._demand_of = demand_of
        self._has_grown = has_grown
        self._clock = clock
        self._leases: dict[str, LeasedLimit] = {}
        self._given_up: dict[str, LeasedLimit] = {}
        self._numbers = count(1)
        self._gone: dict[str, dict[str, int]] = {}
        self._kept_for: frozenset[str] = frozenset()
        self._members: frozenset[str] = frozenset()
        self._asked_at = float("-inf")
        self._heard_at: float | None = None
        self._trouble: str | None = "it was not asked yet"
        self._is_refused = False
        self._task: asyncio.Task[None] | None = None

    def lease(self, engine: str, most: int) -> LeasedLimit:
        """A limit for this engine, with no seat in it until the store has been heard."""
        self._given_up.pop(engine, None)
        limit = self._leases[engine] = LeasedLimit(self._gateway, most, self._clock)
        return limit

    def give_up(self, engine: str) -> None:
        """No request of ours runs in that engine any more, nor will."""
        self._given_up[engine] = self._leases.pop(engine)

    def start(self) -> None:
        """Needs a running event loop."""
        self._task = asyncio.create_task(self._run(), name="renew leases")

    async def stop(self) -> None:
        """Gives everything back, if the store can be reached, and leaves nothing open."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._heard_at is not None:
            self._given_up |= self._leases
            self._leases = {}
            with contextlib.suppress(StoreAwayError, StoreRefusedError, TimeoutError):
                async with asyncio.timeout(_CLOSES_WITHIN_S):
                    await self._store.renew(_farewells(self._given_up, next(self._numbers)))
        await self._store.aclose()

    def state(self) -> SharedState:
        return SharedState(
            is_store_up=self._trouble is None,
            trouble=self._trouble,
            gateways=len(self._members),
            age_s=None if self._heard_at is None else max(0.0, self._clock() - self._heard_at),
            leases={engine: limit.leased for engine, limit in self._leases.items()},
        )

    async def _run(self) -> None:
        while True:
            if self._gone or self._clock() - self._asked_at >= _EVERY_S:
                await self.renew()
            elif self._trouble is None and (urgent := self._urgent()):
                await self._ask(urgent, {}, {})
            await asyncio.sleep(_LOOKS_EVERY_S)

    def _urgent(self) -> dict[str, LeasedLimit]:
        leases = self._leases.items()
        return {name: limit for name, limit in leases if limit.is_urgent(self._demand_of(name))}

    async def renew(self) -> None:
        """All leases in one round trip, and a second one if somebody does not renew his."""
        if not (self._leases or self._given_up):
            return
        self._asked_at = self._clock()
        gone, self._gone = self._gone, {}
        answers = await self._ask(dict(self._leases), gone, dict(self._given_up))
        if answers is None:
            return
        self._members = frozenset(
            name for one in answers.values() if one is not None for name in one.members
        )
        try:
            await self._look_for_the_dead(answers)
        except (StoreAwayError, StoreRefusedError) as error:
            self._unheard(self._leases, error)

    async def _ask(
        self,
        limits: Mapping[str, LeasedLimit],
        gone: Mapping[str, Mapping[str, int]],
        given_up: Mapping[str, LeasedLimit],
    ) -> Mapping[str, Granted | None] | None:
        """None: in vain."""
        asked_at, number = self._clock(), next(self._numbers)
        asked = {
            engine: limit.renewal(number, self._demand_of(engine), gone.get(engine, {}))
            for engine, limit in limits.items()
        }
        farewells = _farewells(given_up, number)
        try:
            answers = await self._store.renew({**asked, **farewells})
        except (StoreAwayError, StoreRefusedError) as error:
            self._unheard(limits, error)
            return None
        for engine in farewells:
            self._given_up.pop(engine, None)
        if self._heard(limits, answers, asked_at):
            self._has_grown()
        return answers

    def _heard(
        self,
        limits: Mapping[str, LeasedLimit],
        answers: Mapping[str, Granted | None],
        asked_at: float,
    ) -> bool:
        has_grown = False
        members: set[str] = set()
        for engine, limit in limits.items():
            granted = answers[engine]
            if granted is not None:
                members.update(granted.members)
                has_grown = limit.heard(granted, asked_at) or has_grown
        if self._trouble is not None:
            _log.info("the store of the shared limit answers, %d gateways", len(members))
        self._trouble = None
        self._is_refused = False
        self._heard_at = self._clock()
        return has_grown

    def _unheard(self, limits: Mapping[str, LeasedLimit], error: Exception) -> None:
        trouble = f"{error}"
        if isinstance(error, StoreAwayError):
            for limit in limits.values():
                limit.unheard()
            self._lost(trouble)
        else:
            self._refused(trouble)
        self._trouble = trouble

    def _lost(self, trouble: str) -> None:
        if self._trouble is None or (self._heard_at is None and self._trouble != trouble):
            _log.warning(
                "the store of the shared limit is lost: %s; going on with the %d seats held here",
                trouble,
                sum(limit.held for limit in self._leases.values()),
            )

    def _refused(self, trouble: str) -> None:
        """Told also where the store was lost before: from now on it is another matter."""
        if self._is_refused:
            return
        self._is_refused = True
        _log.error(
            "the store of the shared limit refuses this gateway: %s; others may be given its %d "
            "seats, so after %g s without an answer it lets nothing in",
            trouble,
            sum(limit.held for limit in self._leases.values()),
            LEASE_S,
        )

    async def _look_for_the_dead(self, answers: Mapping[str, Granted | None]) -> None:
        overdue = {
            engine: granted.overdue
            for engine, granted in answers.items()
            if granted is not None and granted.overdue
        }
        if not overdue:
            self._kept_for = frozenset()
            return
        open_ones = await self._store.connected()
        self._gone = {
            engine: found
            for engine, leases in overdue.items()
            if (found := _dead_of(leases, open_ones))
        }
        late = {name for leases in overdue.values() for name in leases}
        dead = {name for found in self._gone.values() for name in found}
        for name in sorted(dead):
            _log.warning("gateway %s has died: its seats are free", name)
        for name in sorted(late - dead - self._kept_for):
            _log.warning(
                "gateway %s does not renew its lease and may still be at work: its seats are kept "
                "for it",
                name,
            )
        self._kept_for = frozenset(late - dead)


def _farewells(given_up: Mapping[str, LeasedLimit], number: int) -> dict[str, Renewal]:
    return {
        engine: limit.renewal(number, NO_DEMAND, {}, leaves=True)
        for engine, limit in given_up.items()
    }


def _dead_of(leases: Mapping[str, Overdue], open_ones: frozenset[str] | None) -> dict[str, int]:
    if open_ones is None:
        return {name: one.seq for name, one in leases.items() if one.age_ms > UNSEEN_S * 1000}
    return {name: one.seq for name, one in leases.items() if name not in open_ones}

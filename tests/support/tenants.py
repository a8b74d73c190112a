"""Tenants with clients of their own around the core, and the fair shares that they should get."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.admission.controller import AdmissionController
from proxy.admission.disciplines.priority import TRICKLE_SHARE, PriorityDiscipline
from proxy.admission.outcome import Refused
from proxy.admission.request import AdmissionRequest, Priority
from proxy.admission.waiter import Waiter
from tests.support.admission import UPSTREAM, MovableLimit

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from proxy.admission.outcome import Evicted, Reason, Rejected
    from proxy.admission.permit import Ending, Permit


def max_min_shares(
    seats: float, demands: Mapping[str, float], weights: Mapping[str, float]
) -> dict[str, float]:
    """Fills all equally, by weight, until the seats are used up; who wants no more drops out."""
    shares: dict[str, float] = {}
    hungry = dict(demands)
    while hungry:
        level = (seats - sum(shares.values())) / sum(weights.get(name, 1.0) for name in hungry)
        content = {n: d for n, d in hungry.items() if d <= level * weights.get(n, 1.0)}
        if not content:
            return shares | {name: level * weights.get(name, 1.0) for name in hungry}
        shares |= content
        hungry = {name: demand for name, demand in hungry.items() if name not in content}
    return shares


@dataclass(frozen=True)
class Work:
    """What one tenant's requests are like. Durations are uniform, within half of the mean."""

    tenant: str
    mean_s: float = 1.0
    widths: tuple[int, ...] = (1,)
    priority: Priority = Priority.NORMAL
    wait_s: float = math.inf


@dataclass
class Tally:
    """What became of one tenant's requests of one priority."""

    offered: int = 0
    waited_s: list[float] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter[str])


class Town:
    """A controller with the product's discipline on the running loop, and tenants who use it.

    Counts the seat-seconds of each tenant.
    """

    def __init__(
        self,
        seats: int,
        max_queue_depth: int = 1000,
        weights: Mapping[str, float] | None = None,
        cap: int | None = None,
        trickle_share: float = TRICKLE_SHARE,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.seats = seats
        self.limit = MovableLimit(seats)
        self.clock = loop.time
        self.tallies: dict[tuple[str, Priority], Tally] = {}
        self.controller = AdmissionController(
            {UPSTREAM: self.limit},
            max_queue_depth,
            loop.time,
            self,
            lambda: PriorityDiscipline[Waiter](loop.time, weights, cap, trickle_share),
        )
        self._rng = random.Random(20)
        self._held: dict[str, int] = defaultdict(int)
        self._seat_seconds: dict[str, float] = defaultdict(float)
        self._counted_at = loop.time()
        self._visits: set[asyncio.Task[None]] = set()

    # Traffic

    def keep_busy(self, work: Work, clients: int) -> None:
        """So many clients that ask again as soon as they have been served or refused."""
        for _ in range(clients):
            self._start(self._ask_again_and_again(work))

    def send(self, work: Work) -> None:
        """One request."""
        self._start(self._ask(work))

    async def send_steadily(self, work: Work, per_second: float, for_s: float) -> None:
        for _ in range(round(per_second * for_s)):
            self.send(work)
            await asyncio.sleep(1 / per_second)

    async def close(self) -> None:
        """Ends all traffic, then checks that nothing stays taken."""
        for visit in self._visits:
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)
        snapshot = self.controller.snapshot()
        assert (snapshot.in_flight, snapshot.queue_depth) == (0, 0)

    def _start(self, visit: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(visit)
        self._visits.add(task)
        task.add_done_callback(self._visits.discard)

    async def _ask_again_and_again(self, work: Work) -> None:
        while True:
            await self._ask(work)

    async def _ask(self, work: Work) -> None:
        width = self._rng.choice(work.widths)
        duration_s = self._rng.uniform(0.5, 1.5) * work.mean_s
        request = AdmissionRequest(
            width, self.clock() + work.wait_s, tenant=work.tenant, priority=work.priority
        )
        self.tally(work.tenant, work.priority).offered += 1
        with contextlib.suppress(Refused):
            async with self.controller.admit(request) as permit:
                await asyncio.sleep(duration_s)
                permit.complete()

    # What is counted

    def tally(self, tenant: str, priority: Priority = Priority.NORMAL) -> Tally:
        return self.tallies.setdefault((tenant, priority), Tally())

    async def mean_seats(self, after_s: float, over_s: float) -> dict[str, float]:
        """Seats per tenant, the mean over a time."""
        await asyncio.sleep(after_s)
        self._count()
        before = dict(self._seat_seconds)
        await asyncio.sleep(over_s)
        self._count()
        return {
            tenant: (seat_seconds - before.get(tenant, 0.0)) / over_s
            for tenant, seat_seconds in self._seat_seconds.items()
        }

    def _count(self) -> None:
        passed_s = self.clock() - self._counted_at
        self._counted_at = self.clock()
        for tenant, seats in self._held.items():
            self._seat_seconds[tenant] += seats * passed_s

    # AdmissionObserver

    def admitted(self, request: AdmissionRequest, permit: Permit) -> None:
        self._count()
        self._held[request.tenant] += permit.seats
        self.tally(request.tenant, request.priority).waited_s.append(permit.time_in_queue_s)

    def released(self, permit: Permit, ending: Ending) -> None:
        del ending
        self._count()
        self._held[permit.request.tenant] -= permit.seats

    def rejected(self, request: AdmissionRequest | None, rejection: Rejected) -> None:
        assert request is not None
        self.tally(request.tenant, request.priority).refused[f"rejected {rejection.reason}"] += 1

    def evicted(self, request: AdmissionRequest, eviction: Evicted) -> None:
        self.tally(request.tenant, request.priority).refused[f"evicted {eviction.reason}"] += 1

    def abandoned(self, request: AdmissionRequest, time_in_queue_s: float) -> None: ...

    def would_shed(self, reason: Reason) -> None: ...

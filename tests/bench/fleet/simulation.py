"""A fleet in virtual time: gateways that share engines' seats, and what comes in at them.

Of each gateway the real parts run: queue and placement (AdmissionController), leases (LeaseKeeper)
and the rules by which the store gives them out. Made up are HTTP, which takes no time; the engines,
in which a request holds its seat for as long as load.py says, whatever runs beside it; and the
store's pace (store_model.py). Nobody comes back who was refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.admission.controller import AdmissionController
from proxy.admission.outcome import Refused
from proxy.admission.placement.roomiest import Roomiest
from proxy.admission.request import AdmissionRequest
from proxy.shared_limit.lease_keeper import LeaseKeeper
from tests.bench.fleet import load
from tests.bench.fleet.store_model import StoreModel, costs
from tests.bench.fleet.tally import FleetTally, GatewayObserver, jain
from tests.support import virtual_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.shared_limit.leased_limit import LeasedLimit
    from tests.bench.fleet.load import Pattern, Profile
    from tests.bench.fleet.store_model import Costs

QUEUE_TIMEOUT_S = 5.0
_LOOKS_EVERY_S = 0.5
_BEFORE_ANY_LOAD_S = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`seats` in each engine; `skew` as load.parts() has it; `warm_up_s` of `lasts_s` do not count.
    `store`: what it costs; None, as measured."""

    gateways: int
    engines: int
    seats: int
    profile: Profile
    lasts_s: float
    warm_up_s: float = 20.0
    skew: float = 0.0
    seed: int = 1
    store: Costs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """At one moment; all but the load as parts of all seats."""

    at_s: float
    load: float
    taken: float
    parked: float
    """Held by gateways at which nobody waits, while somebody waits at others."""
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Of one plan. Seconds of waits are of those who were admitted; per gateway: the best, the
    worst. A `store_load` of 1 is one core's."""

    requests: int
    refused: dict[str, int]
    admitted_share: float
    mean_taken: float
    utilization: float
    waiting_part: float
    parked: float
    fairness: float
    wait_p50_s: float
    wait_p99_s: float
    gateway_p50_s: tuple[float, float]
    gateway_p99_s: tuple[float, float]
    gateway_admitted: tuple[float, float]
    most_in_one: int
    round_trips_per_s: float
    renewals_per_s: float
    store_load: float
    gateway_load: float
    timeouts: int
    took_s: float
    events_per_s: float
    samples: tuple[Sample, ...]


def simulate(plan: Plan, pattern: Pattern) -> Outcome:
    """Raises LimitExceededError at the first seat too many."""
    return virtual_time.run(_Fleet(plan, pattern).run())


@dataclass
class _Gateway:
    name: str
    controller: AdmissionController
    keeper: LeaseKeeper
    observer: GatewayObserver
    leases: list[LeasedLimit]
    traffic: Iterator[tuple[float, float]]

    def idle_seats(self) -> int:
        """Leased, and not taken."""
        return sum([lease.leased for lease in self.leases]) - self.observer.taken


@dataclass
class _Fleet:
    plan: Plan
    pattern: Pattern
    requests: set[asyncio.Task[None]] = field(default_factory=set)
    samples: list[Sample] = field(default_factory=list)

    async def run(self) -> Outcome:
        began = time.perf_counter()
        plan, loop = self.plan, asyncio.get_running_loop()
        self.tally = FleetTally(loop.time, plan.seats, plan.engines)
        self.costs = plan.store or costs(plan.gateways)
        self.store = StoreModel(loop.time, self.costs)
        self.gateways = [self._gateway(n) for n in range(plan.gateways)]
        for number, gateway in enumerate(self.gateways):
            loop.call_later(0.25 * number / plan.gateways, gateway.keeper.start)
        await asyncio.sleep(_BEFORE_ANY_LOAD_S)
        self.began_at = loop.time()
        clients = [asyncio.create_task(self._clients(one)) for one in self.gateways]
        await asyncio.sleep(plan.warm_up_s)
        self.tally.begin()
        before = (
            self.store.round_trips,
            self.store.renewals,
            self.store.busy_s,
            self.store.timeouts,
        )
        while loop.time() < self.began_at + plan.lasts_s:
            await asyncio.sleep(_LOOKS_EVERY_S)
            self.samples.append(self._look())
        outcome = self._outcome(before, time.perf_counter() - began)
        await self._stop(clients)
        return outcome

    def _gateway(self, number: int) -> _Gateway:
        plan, clock, rng = (
            self.plan,
            asyncio.get_running_loop().time,
            random.Random(self._seed(number)),
        )
        # Names as the gateway draws its own: without any order that others share.
        name = f"{rng.getrandbits(64):016x}"
        self.store.connect(name)
        keeper = LeaseKeeper(
            self.store,
            name,
            lambda engine: controller.demand(engine),  # noqa: PLW0108 - made below
            lambda: controller.limit_changed(),  # noqa: PLW0108 - made below
            clock,
        )
        limits = {
            f"http://engine-{n}": keeper.lease(f"http://engine-{n}", plan.seats)
            for n in range(plan.engines)
        }
        observer = GatewayObserver(name, self.tally)
        places = max(1, plan.seats * plan.engines // plan.gateways)
        controller = AdmissionController(
            limits, places, clock, observer, new_placement=lambda: Roomiest(rng)
        )
        part = load.parts(plan.gateways, plan.skew)[number]
        rate = part * plan.seats * plan.engines / self.pattern.mean_hold_s
        start = rng.randrange(len(self.pattern.gaps))
        traffic = load.arrivals(self.pattern, plan.profile, rate, start)
        return _Gateway(name, controller, keeper, observer, list(limits.values()), traffic)

    def _seed(self, number: int) -> int:
        return self.plan.seed * 100_003 + number

    async def _clients(self, gateway: _Gateway) -> None:
        loop = asyncio.get_running_loop()
        for at_s, hold_s in gateway.traffic:
            if (pause_s := self.began_at + at_s - loop.time()) > 0:
                await asyncio.sleep(pause_s)
            task = loop.create_task(self._request(gateway, hold_s))
            self.requests.add(task)
            task.add_done_callback(self.requests.discard)

    async def _request(self, gateway: _Gateway, hold_s: float) -> None:
        now = asyncio.get_running_loop().time()
        request = AdmissionRequest(1, now + QUEUE_TIMEOUT_S)
        gateway.observer.arrived()
        with contextlib.suppress(Refused):
            async with gateway.controller.admit(request) as permit:
                await asyncio.sleep(hold_s)
                permit.complete()

    def _look(self) -> Sample:
        seats = self.plan.seats * self.plan.engines
        at_s = asyncio.get_running_loop().time() - self.began_at
        parked = 0
        if self.tally.waiting:
            parked = sum(one.idle_seats() for one in self.gateways if not one.observer.queue)
        return Sample(
            at_s=at_s,
            load=self.plan.profile.at(at_s),
            taken=self.tally.taken / seats,
            parked=parked / seats,
            waiting=self.tally.waiting,
        )

    async def _stop(self, clients: list[asyncio.Task[None]]) -> None:
        for task in (*clients, *self.requests):
            task.cancel()
        await asyncio.gather(*clients, *self.requests, return_exceptions=True)
        for gateway in self.gateways:
            await gateway.keeper.stop()
        await self.store.stop()

    def _outcome(self, before: tuple[int, int, float, int], took_s: float) -> Outcome:
        plan, tally, store = self.plan, self.tally, self.store
        counted_s = plan.lasts_s - plan.warm_up_s
        each = [one for one in tally.gateways.values() if one.arrived]
        waits = sorted(wait for one in each for wait in one.waits_s)
        arrived = sum(one.arrived for one in each)
        round_trips, renewals = store.round_trips - before[0], store.renewals - before[1]
        contended = [one.parked for one in self.samples if one.waiting]
        shares = [one.admitted_share for one in each]
        return Outcome(
            requests=arrived,
            refused=dict(tally.refused),
            admitted_share=min(1.0, len(waits) / arrived) if arrived else 1.0,
            mean_taken=tally.mean_taken,
            utilization=tally.utilization,
            waiting_part=tally.waiting_part,
            parked=sum(contended) / len(contended) if contended else 0.0,
            fairness=jain(shares),
            wait_p50_s=_rank(waits, 50),
            wait_p99_s=_rank(waits, 99),
            gateway_p50_s=_ends([one.wait_s(50) for one in each]),
            gateway_p99_s=_ends([one.wait_s(99) for one in each]),
            gateway_admitted=_ends(shares),
            most_in_one=tally.most_in_one,
            round_trips_per_s=round_trips / counted_s,
            renewals_per_s=renewals / counted_s,
            store_load=(store.busy_s - before[2]) / counted_s,
            gateway_load=renewals / counted_s / plan.gateways * self.costs.gateway_s,
            timeouts=store.timeouts - before[3],
            took_s=took_s,
            events_per_s=(2 * arrived + renewals) / took_s,
            samples=tuple(self.samples),
        )


def _rank(ordered: list[float], percent: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0.0


def _ends(values: list[float]) -> tuple[float, float]:
    return (min(values), max(values)) if values else (0.0, 0.0)

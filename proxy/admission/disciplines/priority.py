"""Three priorities; inside one, tenants share the seats fairly; inside a tenant, first come first.

A higher priority goes first, but a lower one that waits beside it is never shut out: of every
1 / s seats granted past it, the share s is its own (s = trickle_share, in seats). Per priority

    d  seats granted to others of higher priority while it waited
    it is due when d >= 1/s - 1, and each seat that it then gets takes 1/s - 1 off d

so that a wide request pays for its width afterwards. Fairness between tenants and the choice of who
makes room for a tenant of the same priority are in fairness/max_min.py. A newcomer of higher
priority takes the place of the newest waiter of the lowest priority.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

from proxy.admission.disciplines.fifo import Fifo
from proxy.admission.fairness.max_min import Contender, MaxMin, Tenant
from proxy.admission.ports import Queued
from proxy.admission.request import Priority
from proxy.admission.snapshot import TenantSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.admission.request import AdmissionRequest

TRICKLE_SHARE = 0.05
# A tenant that is away for a moment between two requests keeps what it owes. Names may come from
# the outside, so no more of them are remembered than this.
REMEMBERED_TENANTS = 1000

W = TypeVar("W", bound=Queued)


class _Band(Generic[W]):
    """All who wait in one priority. `passed_over` is d."""

    __slots__ = ("fairness", "passed_over", "waiters")

    def __init__(self) -> None:
        self.waiters = Fifo[W]()
        self.fairness = MaxMin[Fifo[W]]()
        self.passed_over = 0.0

    def head(self) -> W | None:
        line = self.fairness.next()
        return None if line is None else line.queue.head()

    def second(self) -> W | None:
        """Of another tenant rather than the one whose head it is: that one is being served."""
        other = self.fairness.runner_up()
        if other is not None:
            return other.queue.head()
        line = self.fairness.next()
        return None if line is None else line.queue.second()


class PriorityDiscipline(Generic[W]):
    """See the top of the file.

    `clock` counts seconds. `weights`: seats per tenant in proportion, 1 for those not named.
    `tenant_max_in_flight`: so many seats at most for each tenant; a request that is wider runs when
    its tenant holds none. `trickle_share`: from 0, which is off, to below 1.
    Raises ValueError for a weight, a cap or a share that makes no sense.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        weights: Mapping[str, float] | None = None,
        tenant_max_in_flight: int | None = None,
        trickle_share: float = TRICKLE_SHARE,
    ) -> None:
        self._weights = dict(weights or {})
        for name, weight in self._weights.items():
            if not 0 < weight < math.inf:
                raise ValueError(f"a weight is more than 0, not {weight} ({name})")
        if tenant_max_in_flight is not None and tenant_max_in_flight < 1:
            raise ValueError(f"a tenant's cap is 1 seat or more, not {tenant_max_in_flight}")
        if not 0 <= trickle_share < 1:
            raise ValueError(f"the trickle is a share from 0 to below 1, not {trickle_share}")
        self._clock = clock
        self._cap = math.inf if tenant_max_in_flight is None else tenant_max_in_flight
        self._due_after = 1 / trickle_share - 1 if trickle_share else math.inf
        self._bands = bands = tuple(_Band[W]() for _ in Priority)
        self._above = tuple(bands[:priority] for priority in Priority)
        self._below = tuple(bands[priority + 1 :] for priority in Priority)
        self._tenants: dict[str, Tenant[Fifo[W]]] = {}
        self._idle: OrderedDict[str, None] = OrderedDict()
        self._waiting = 0
        self._contested_s = 0.0  # how long anybody has waited, up to the last time nobody did
        self._contested_since = 0.0

    def add(self, waiter: W) -> None:
        request = waiter.request
        tenant = self._tenant(request.tenant)
        if self._waiting == 0:
            self._contested_since = self._clock()
        self._waiting += 1
        tenant.waiting += 1
        band = self._bands[request.priority]
        band.waiters.add(waiter)
        line = self._line(tenant, request.priority)
        line.queue.add(waiter)
        band.fairness.joined(line, waiter.width)
        if len(line.queue) == 1:
            tenant.settle(self._now_contested_s())
            self._review_line(band, line)

    def remove(self, waiter: W) -> None:
        request = waiter.request
        band = self._bands[request.priority]
        band.waiters.remove(waiter)
        tenant = self._tenants[request.tenant]
        line = self._line(tenant, request.priority)
        was_first = line.queue.head() is waiter
        line.queue.remove(waiter)
        band.fairness.left(line, waiter.width)
        if not line.queue:
            band.fairness.withdraw(line)
        elif was_first:
            band.fairness.choose_again(line)
            if self._cap < math.inf:  # else who stands first makes no difference
                tenant.settle(self._now_contested_s())
                self._review_line(band, line)
        tenant.waiting -= 1
        if tenant.waiting == tenant.in_flight == 0:
            self._remember(request.tenant)
        self._waiting -= 1
        if self._waiting == 0:
            self._contested_s += self._clock() - self._contested_since

    @property
    def active_tenants(self) -> int:
        """How many have requests in flight or waiting."""
        return len(self._tenants) - len(self._idle)

    def tenants(self) -> list[TenantSnapshot]:
        """All that have requests in flight or waiting, in no particular order."""
        return [
            TenantSnapshot(name, tenant.in_flight, tenant.waiting, tenant.weight)
            for name, tenant in self._tenants.items()
            if tenant.in_flight or tenant.waiting
        ]

    def head(self) -> W | None:
        if not self._waiting:
            return None
        band = self._next_band()
        return None if band is None else band.head()

    def second(self) -> W | None:
        first = self._next_band()
        for band in self._bands:
            if band.fairness.competing:
                waiter = band.second() if band is first else band.head()
                if waiter is not None and not self.over_cap(waiter.request):
                    return waiter
        return None

    def _next_band(self) -> _Band[W] | None:
        for band in self._below[Priority.HIGH]:
            if band.passed_over >= self._due_after and band.fairness.competing:
                return band
        for band in self._bands:
            if band.fairness.competing:
                return band
        return None

    def __len__(self) -> int:
        return self._waiting

    def all(self) -> list[W]:
        return [waiter for band in self._bands for waiter in band.waiters.all()]

    def may_run(self, request: AdmissionRequest) -> bool:
        if self._waiting and self._is_behind_somebody(request):
            return False
        return not self.over_cap(request)

    def over_cap(self, request: AdmissionRequest) -> bool:
        if self._cap == math.inf:
            return False
        tenant = self._tenants.get(request.tenant)
        return tenant is not None and self._is_capped(tenant, request.seats)

    def took(self, request: AdmissionRequest, seats: int) -> None:
        tenant = self._tenant(request.tenant)
        tenant.settle(self._now_contested_s())
        tenant.in_flight += seats
        if self._waiting:
            band = self._bands[request.priority]
            band.fairness.granted(self._line(tenant, request.priority))
            self._count_trickle(request.priority, seats)
            if tenant.waiting:
                self._review(tenant)

    def gave_back(self, request: AdmissionRequest, seats: int) -> None:
        tenant = self._tenants[request.tenant]
        tenant.settle(self._now_contested_s())
        tenant.in_flight -= seats
        if tenant.waiting:
            self._review(tenant)
        elif tenant.in_flight == 0:
            self._remember(request.tenant)

    def seats_ahead(self, request: AdmissionRequest) -> int:
        """All of higher priority; of its own, what the others get while its tenant's line moves up.

        Those that wait below their tenant's cap are not counted. So it is too low where others hold
        fewer seats, or where the cap slows the newcomer's own line.
        """
        higher = 0
        for band in self._above[request.priority]:
            higher += band.fairness.competing_seats
        fairness = self._bands[request.priority].fairness
        line = self._known_line(request)
        own = 0 if line is None else line.queued_seats
        if own == fairness.competing_seats:
            return higher + own  # no other tenant's seats are in between, as where there are none
        weight = self._weights.get(request.tenant, 1.0)
        everybody = fairness.competing_weight + (0 if line is not None and line.turn else weight)
        in_its_turn = (own + request.seats) * everybody / weight - request.seats
        return higher + min(fairness.competing_seats, math.ceil(in_its_turn))

    def yields_to(self, request: AdmissionRequest) -> W | None:
        if not self._waiting or self.over_cap(request):
            return None
        if self._only_its_own_wait(request):
            return None
        head = self.head()
        for band in reversed(self._below[request.priority]):
            newest = band.waiters.newest()
            if newest is not None and newest is not head:
                return newest
        return self._of_its_own_priority(request)

    def _only_its_own_wait(self, request: AdmissionRequest) -> bool:
        """Nobody below it, and no other tenant beside it: how it is where there are neither tenants
        nor priorities, and then a flood of refusals is spared the search."""
        for band in self._below[request.priority]:
            if band.fairness.queueing:
                return False
        line = self._known_line(request)
        own = 1 if line is not None and line.queued_seats else 0
        return self._bands[request.priority].fairness.queueing == own

    def _of_its_own_priority(self, request: AdmissionRequest) -> W | None:
        fairness = self._bands[request.priority].fairness
        chosen = fairness.chosen
        alone = chosen if chosen is not None and len(chosen.queue) == 1 else None
        longest = fairness.longest(but_for=alone)
        if longest is None:
            return None
        line = self._known_line(request)
        seats = request.seats + (0 if line is None else line.queued_seats)
        weight = self._weights.get(request.tenant, 1.0)
        if longest.queued_seats / longest.tenant.weight <= seats / weight:
            return None
        return longest.queue.newest()

    def _is_behind_somebody(self, request: AdmissionRequest) -> bool:
        """Whether anybody waits who goes first, be it only its own tenant's capped request."""
        if self._bands[request.priority].fairness.competing:
            return True
        for band in self._above[request.priority]:
            if band.fairness.competing:
                return True
        for band in self._below[request.priority]:
            if band.passed_over >= self._due_after and band.fairness.competing:
                return True
        line = self._known_line(request)
        return line is not None and len(line.queue) > 0

    def _count_trickle(self, priority: Priority, seats: int) -> None:
        band = self._bands[priority]
        if band.passed_over >= self._due_after:
            band.passed_over -= seats * self._due_after
        for lower in self._below[priority]:
            if lower.fairness.competing:
                lower.passed_over += seats

    def _is_capped(self, tenant: Tenant[Fifo[W]], seats: int) -> bool:
        in_flight = tenant.in_flight
        return in_flight > 0 and in_flight + seats > self._cap

    def _review(self, tenant: Tenant[Fifo[W]]) -> None:
        """Ranks its lines anew, after a change of what it holds."""
        for band, line in zip(self._bands, tenant.contenders, strict=True):
            if line is not None and line.queued_seats:
                self._review_line(band, line)

    def _review_line(self, band: _Band[W], line: Contender[Fifo[W]]) -> None:
        if self._cap < math.inf:
            first = line.queue.head()
            if first is not None and self._is_capped(line.tenant, first.width):
                band.fairness.withdraw(line)
                return
        band.fairness.rank(line)

    def _now_contested_s(self) -> float:
        if not self._waiting:
            return self._contested_s
        return self._contested_s + self._clock() - self._contested_since

    def _tenant(self, name: str) -> Tenant[Fifo[W]]:
        tenant = self._tenants.get(name)
        if tenant is None:
            weight = self._weights.get(name, 1.0)
            tenant = self._tenants[name] = Tenant(weight, len(self._bands))
        elif tenant.waiting == tenant.in_flight == 0:
            del self._idle[name]
        return tenant

    def _known_line(self, request: AdmissionRequest) -> Contender[Fifo[W]] | None:
        tenant = self._tenants.get(request.tenant)
        return None if tenant is None else tenant.contenders[request.priority]

    def _line(self, tenant: Tenant[Fifo[W]], priority: Priority) -> Contender[Fifo[W]]:
        line = tenant.contenders[priority]
        if line is None:
            line = tenant.contenders[priority] = Contender(tenant, Fifo[W]())
        return line

    def _remember(self, name: str) -> None:
        self._idle[name] = None
        if len(self._idle) > REMEMBERED_TENANTS:
            oldest, _ = self._idle.popitem(last=False)
            del self._tenants[oldest]

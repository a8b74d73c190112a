"""What is counted of a fleet while it runs, and what that comes to.

    utilization   of all seats those that are taken, as long as anybody waits anywhere
    Jain's index  (sum x)^2 / (n * sum x^2) of x, the part of its requests that each gateway could
                  admit: 1 when all are alike, 1/n when one has everything

Source of the index: R. Jain, D. Chiu, W. Hawe, DEC-TR-301 (1984).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.replay.percentiles import percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.admission.outcome import Evicted, Reason, Rejected
    from proxy.admission.permit import Ending, Permit
    from proxy.admission.request import AdmissionRequest


class LimitExceededError(AssertionError):
    """More seats of an engine are taken than there are."""


def jain(shares: Sequence[float]) -> float:
    """1 where nobody got anything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


@dataclass(slots=True)
class GatewayTally:
    """Since counting began: requests, and how long those that were admitted had waited."""

    arrived: int = 0
    waits_s: list[float] = field(default_factory=list)

    @property
    def admitted_share(self) -> float:
        return min(1.0, len(self.waits_s) / self.arrived) if self.arrived else 1.0

    def wait_s(self, percent: float) -> float:
        return percentile(sorted(self.waits_s), percent) or 0.0


class FleetTally:
    """All engines' seats, `limit` each, and all gateways' queues, at every moment."""

    def __init__(self, clock: Callable[[], float], limit: int, engines: int) -> None:
        self._clock = clock
        self._limit = limit
        self._all = limit * engines
        self._taken_in: Counter[str] = Counter()
        self._at = clock()
        self.taken = self.waiting = self.most_in_one = 0
        self.gateways: dict[str, GatewayTally] = {}
        self.begin()

    def begin(self) -> None:
        """From here on it counts; what runs and waits stays."""
        self._at = self._clock()
        self._waiting_s = self._taken_meanwhile = self._taken_s = self._lasted_s = 0.0
        self.refused: Counter[str] = Counter()
        for gateway in self.gateways:
            self.gateways[gateway] = GatewayTally()

    @property
    def utilization(self) -> float:
        """1 where nobody ever waited."""
        self._pass()
        return self._taken_meanwhile / (self._waiting_s * self._all) if self._waiting_s else 1.0

    @property
    def mean_taken(self) -> float:
        self._pass()
        return self._taken_s / (self._lasted_s * self._all) if self._lasted_s else 0.0

    @property
    def waiting_part(self) -> float:
        """Of the time: somebody waited."""
        self._pass()
        return self._waiting_s / self._lasted_s if self._lasted_s else 0.0

    def admit(self, engine: str, seats: int) -> None:
        self._pass()
        self.taken += seats
        self._taken_in[engine] += seats
        self.most_in_one = max(self.most_in_one, self._taken_in[engine])
        if self._taken_in[engine] > self._limit:
            raise LimitExceededError(f"{self._taken_in[engine]} of {self._limit} in {engine}")

    def release(self, engine: str, seats: int) -> None:
        self._pass()
        self.taken -= seats
        self._taken_in[engine] -= seats

    def wait(self, more: int) -> None:
        self._pass()
        self.waiting += more

    def _pass(self) -> None:
        now = self._clock()
        passed_s, self._at = now - self._at, now
        self._lasted_s += passed_s
        self._taken_s += passed_s * self.taken
        if self.waiting:
            self._waiting_s += passed_s
            self._taken_meanwhile += passed_s * self.taken


class GatewayObserver:
    """Tells the fleet's tally of one gateway. `queue`: how many wait there."""

    def __init__(self, name: str, fleet: FleetTally) -> None:
        self._name = name
        self._fleet = fleet
        self.queue = self.taken = 0
        fleet.gateways[name] = GatewayTally()

    def arrived(self) -> None:
        """To be said before it is decided; one of the others is said then, at once or later."""
        self._fleet.gateways[self._name].arrived += 1
        self._queue(1)

    def admitted(self, request: AdmissionRequest, permit: Permit) -> None:
        del request
        self._queue(-1)
        self.taken += permit.seats
        self._fleet.admit(permit.upstream, permit.seats)
        self._fleet.gateways[self._name].waits_s.append(permit.time_in_queue_s)

    def rejected(self, request: AdmissionRequest | None, rejection: Rejected) -> None:
        del request
        self._refused(rejection.reason)

    def evicted(self, request: AdmissionRequest, eviction: Evicted) -> None:
        del request
        self._refused(eviction.reason)

    def abandoned(self, request: AdmissionRequest, time_in_queue_s: float) -> None:
        del request, time_in_queue_s
        self._queue(-1)

    def released(self, permit: Permit, ending: Ending) -> None:
        del ending
        self.taken -= permit.seats
        self._fleet.release(permit.upstream, permit.seats)

    def would_shed(self, reason: Reason) -> None:
        """Not in shadow mode."""

    def _refused(self, reason: Reason) -> None:
        self._queue(-1)
        self._fleet.refused[str(reason)] += 1

    def _queue(self, more: int) -> None:
        self.queue += more
        self._fleet.wait(more)

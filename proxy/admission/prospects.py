"""How long a newcomer would wait for its turn, and whether that is too long for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from proxy.admission.snapshot import Demand

if TYPE_CHECKING:
    from proxy.admission.drain_estimate import DrainEstimate
    from proxy.admission.ledger import Ledger
    from proxy.admission.ports import Discipline
    from proxy.admission.request import AdmissionRequest
    from proxy.admission.waiter import Waiter

# The expected wait is a mean: who would just about be served is not sent away for it.
_DOUBT = 1.25


class Prospects:
    """Looks at the seats, the queue and the pace of one gate; changes none of them."""

    __slots__ = ("_drain_estimate", "_ledger", "_queue")

    def __init__(
        self, ledger: Ledger, queue: Discipline[Waiter], drain_estimate: DrainEstimate
    ) -> None:
        self._ledger = ledger
        self._queue = queue
        self._drain_estimate = drain_estimate

    def demand(self, taken: int, now: float) -> Demand:
        """Of an upstream of this gate in which so many seats are taken."""
        head = self._queue.head()
        if head is None:
            return Demand(taken, 0, 0, 0.0)
        seats = head.request.seats
        return Demand(taken, len(self._queue) - 1 + seats, seats, now - head.joined_at)

    def expected_wait_s(self, request: AdmissionRequest, now: float) -> float:
        """Until its turn, if it came now and had a place."""
        in_flight = self._ledger.usable_taken
        limit = self._seats_that_turn_over(in_flight)
        ahead = self._queue.seats_ahead(request)
        seats = in_flight - limit + ahead + self._ledger.width(request.seats)
        return self._drain_estimate.expected_wait_s(seats, limit, now)

    def are_hopeless(self, request: AdmissionRequest, now: float) -> bool:
        """Whether those who go first will need longer than it may wait. Who would be the head is
        never sent away: the next seat may come free at any moment, and must find somebody."""
        ahead = self._queue.seats_ahead(request)
        if ahead <= 0:
            return False
        limit = self._seats_that_turn_over(self._ledger.usable_taken)
        expected_s = self._drain_estimate.expected_wait_s(ahead, limit, now)
        return _DOUBT * (request.deadline - now) < expected_s < math.inf

    def _seats_that_turn_over(self, taken: int) -> int:
        """The limit; but where tokens run out before seats only those that are taken, or the wait
        behind them would look as short as if all seats were in use."""
        limit = self._ledger.usable_limit
        if not 0 < taken < limit or not self._ledger.limits_tokens:
            return limit
        head = self._queue.head()
        return taken if head is not None and self._ledger.has_room(head.request.seats) else limit

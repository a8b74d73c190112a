"""Decides who may run, who waits and who is refused. Every method is one synchronous step.

Nobody is waiting who would fit: whatever frees seats, or moves the head of the queue, grants to
the head until the head no longer fits. A newcomer is granted only when nobody waits.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from proxy.admission.drain_estimate import DrainEstimate
from proxy.admission.ledger import Ledger
from proxy.admission.outcome import Evicted, Reason, RefusalFacts, Rejected
from proxy.admission.permit import Ending, Permit
from proxy.admission.snapshot import AdmissionSnapshot
from proxy.admission.waiter import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.admission.ledger import Claim
    from proxy.admission.ports import AdmissionObserver, Discipline, Limit
    from proxy.admission.request import AdmissionRequest


class Gate:
    """Owns the seats and the places in the queue. `clock` is the event loop's time()."""

    def __init__(
        self,
        limits: Mapping[str, Limit],
        max_queue_depth: int,
        clock: Callable[[], float],
        observer: AdmissionObserver,
        queue: Discipline[Waiter],
    ) -> None:
        self._ledger = Ledger(limits)
        self._max_queue_depth = max_queue_depth
        self._clock = clock
        self._observer = observer
        self._queue = queue
        self._queued_seats = 0
        self._drain_estimate = DrainEstimate()
        self._draining = False
        self._closed_by: Reason | None = None

    def decide(self, request: AdmissionRequest) -> Permit | Waiter | Rejected:
        """A waiter is in the queue when this returns; somebody must await its outcome()."""
        if self._closed_by is None and not self._queue:
            claim = self._ledger.take(request.seats)
            if claim is not None:
                return self._grant(request, claim, self._clock(), 0.0)
        now = self._clock()
        reason = self._obstacle(may_wait=request.deadline > now)
        if reason is None:
            return self._enqueue(request, now)
        rejection = Rejected(self._facts(reason, request.seats, 0.0, now))
        self._observer.rejected(request, rejection)
        return rejection

    def reject_early(self, may_wait: bool = True) -> Rejected | None:
        """What decide() would say now to a request for one seat, if that is a rejection."""
        if self._closed_by is None and not self._queue and self._ledger.has_room(1):
            return None
        reason = self._obstacle(may_wait)
        if reason is None:
            return None
        rejection = Rejected(self._facts(reason, 1, 0.0, self._clock()))
        self._observer.rejected(None, rejection)
        return rejection

    def drain(self) -> None:
        self._draining = True
        self._close(Reason.DRAINING)

    def suspend(self, upstream: str, reason: Reason) -> None:
        self._ledger.suspend(upstream)
        if self._ledger.is_usable:
            self._grant_waiting()  # a head that waited for this one, the widest, may fit another
        elif not self._draining:
            self._close(reason)

    def resume(self, upstream: str) -> None:
        self._ledger.resume(upstream)
        if not self._draining:
            self._closed_by = None
            self._grant_waiting()

    def limit_changed(self) -> None:
        self._grant_waiting()

    @property
    def closed_by(self) -> Reason | None:
        """Why nobody at all is admitted: draining, or the reason of the latest suspension."""
        return self._closed_by

    def snapshot(self) -> AdmissionSnapshot:
        return AdmissionSnapshot(
            self._ledger.snapshot(), len(self._queue), self._max_queue_depth, self._draining
        )

    def _obstacle(self, may_wait: bool) -> Reason | None:
        """Why a newcomer that finds no free seat cannot wait for one either."""
        if self._closed_by is not None:
            return self._closed_by
        if len(self._queue) >= self._max_queue_depth:
            return Reason.QUEUE_FULL
        return None if may_wait else Reason.QUEUE_TIMEOUT

    def _grant(
        self, request: AdmissionRequest, claim: Claim, now: float, time_in_queue_s: float
    ) -> Permit:
        self._drain_estimate.took(claim.seats, now)
        permit = Permit(request, claim.upstream, claim.seats, time_in_queue_s, self._give_back)
        self._observer.admitted(request, permit)
        return permit

    def _give_back(self, permit: Permit, ending: Ending) -> None:
        self._ledger.give_back(permit.upstream, permit.seats)
        self._drain_estimate.gave_back(permit.seats, self._clock())
        self._observer.released(permit, ending)
        self._grant_waiting()

    def _grant_waiting(self) -> None:
        while (waiter := self._queue.head()) is not None:
            claim = self._ledger.take(waiter.request.seats)
            if claim is None:
                return
            self._dequeue(waiter)
            now = self._clock()
            waiter.set_result(self._grant(waiter.request, claim, now, now - waiter.joined_at))

    def _enqueue(self, request: AdmissionRequest, now: float) -> Waiter:
        loop = asyncio.get_running_loop()
        waiter = Waiter(loop, request, self._ledger.width(request.seats), now, self._abandon)
        if request.deadline < math.inf:
            waiter.timer = loop.call_at(request.deadline, self._time_out, waiter)
        self._queue.add(waiter)
        self._queued_seats += waiter.width
        if self._queue.head() is waiter:  # not under FIFO; a discipline may let newcomers pass
            self._grant_waiting()
        return waiter

    def _dequeue(self, waiter: Waiter) -> None:
        self._queue.remove(waiter)
        self._queued_seats -= waiter.width
        if waiter.timer is not None:
            waiter.timer.cancel()

    def _time_out(self, waiter: Waiter) -> None:
        self._evict(waiter, Reason.QUEUE_TIMEOUT)
        self._grant_waiting()

    def _abandon(self, waiter: Waiter) -> None:
        self._dequeue(waiter)
        self._observer.abandoned(waiter.request, self._clock() - waiter.joined_at)
        self._grant_waiting()

    def _evict(self, waiter: Waiter, reason: Reason) -> None:
        self._dequeue(waiter)
        now = self._clock()
        waited_s = now - waiter.joined_at
        eviction = Evicted(self._facts(reason, waiter.request.seats, waited_s, now))
        self._observer.evicted(waiter.request, eviction)
        waiter.set_result(eviction)

    def _close(self, reason: Reason) -> None:
        self._closed_by = reason
        while (waiter := self._queue.head()) is not None:
            self._evict(waiter, reason)

    def _facts(self, reason: Reason, seats: int, waited_s: float, now: float) -> RefusalFacts:
        in_flight, limit = self._ledger.usable_taken, self._ledger.usable_limit
        until_its_turn = in_flight - limit + self._queued_seats + self._ledger.width(seats)
        return RefusalFacts(
            reason=reason,
            seats=seats,
            in_flight=in_flight,
            limit=limit,
            queue_depth=len(self._queue),
            max_queue_depth=self._max_queue_depth,
            time_in_queue_s=waited_s,
            expected_wait_s=self._drain_estimate.expected_wait_s(until_its_turn, limit, now),
        )

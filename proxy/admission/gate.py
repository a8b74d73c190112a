"""Decides who may run, who waits and who is refused. Every method is one synchronous step.

The head of the queue never waits when it fits: whatever frees seats, or moves the head, grants to
it until it no longer fits. A newcomer is granted only when nobody waits who goes first. Past a head
that does not fit others are granted as far as bypass.py allows.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from proxy.admission.bypass import Bypass
from proxy.admission.drain_estimate import DrainEstimate
from proxy.admission.ledger import Ledger
from proxy.admission.outcome import HOPELESS, Evicted, Reason, RefusalFacts, Rejected
from proxy.admission.permit import Ending, Permit
from proxy.admission.prospects import Prospects
from proxy.admission.request import AdmissionRequest, Priority
from proxy.admission.snapshot import AdmissionSnapshot
from proxy.admission.waiter import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.admission.account import Account, Claim
    from proxy.admission.ports import AdmissionObserver, Discipline, Limit, Placement
    from proxy.admission.retry_budget import RetryBudget
    from proxy.admission.token_budget import TokenBudgets


class Gate:
    """Owns the seats and the places in the queue. `clock` is the event loop's time()."""

    def __init__(
        self,
        limits: Mapping[str, Limit],
        max_queue_depth: int,
        clock: Callable[[], float],
        observer: AdmissionObserver,
        queue: Discipline[Waiter],
        retry_budget: RetryBudget,
        token_budgets: Mapping[str, TokenBudgets] | None = None,
        placement: Placement | None = None,
        freed_elsewhere: Callable[[str], None] = lambda _: None,
        elsewhere: Callable[[AdmissionRequest], Gate | None] = lambda _: None,
    ) -> None:
        """`freed_elsewhere` hears of room that came free in an upstream which was released from
        here. `elsewhere` names an open gate, this or another, that serves such a request."""
        self._ledger = Ledger(limits, token_budgets, placement)
        self._freed_elsewhere = freed_elsewhere
        self._elsewhere = elsewhere
        self.max_queue_depth = max_queue_depth
        self._clock = clock
        self._observer = observer
        self._queue = queue
        self._retry_budget = retry_budget
        self._drain_estimate = DrainEstimate()
        self.prospects = Prospects(self._ledger, queue, self._drain_estimate)
        self._draining = False
        self.closed_by: Reason | None = None if limits else Reason.UPSTREAM_UNAVAILABLE
        """Why nobody at all is admitted: draining, or the reason of the latest suspension."""

    def decide(self, request: AdmissionRequest) -> Permit | Waiter | Rejected:
        """A waiter is in the queue when this returns; somebody must await its outcome()."""
        now = self._clock()
        invited = request.attempt == 0 or request.readmitted or self._retry_budget.redeem(now)
        if self.closed_by is None and self._queue.may_run(request):
            claim = self._claim(request)
            if claim is not None:
                permit = self._grant(request, claim, now, 0.0)
                if self._queue:
                    self._grant_waiting()  # being passed may have made another one the head
                return permit
        reason = self._obstacle(request, now, invited)
        if reason is None:
            return self._enqueue(request, now)
        rejection = Rejected(self._facts(reason, request, 0.0, now))
        self._observer.rejected(request, rejection)
        return rejection

    def reject_early(
        self,
        longest_wait_s: float = math.inf,
        attempt: int = 0,
        tenant: str = "",
        priority: Priority = Priority.NORMAL,
    ) -> Rejected | None:
        """What decide() would say now to such a request for one seat, if that is a rejection."""
        now = self._clock()
        request = AdmissionRequest(
            1, now + longest_wait_s, tenant=tenant, priority=priority, attempt=attempt
        )
        reason = self._early_obstacle(request, now)
        if reason is None:
            return None
        if attempt:
            self._retry_budget.redeem(now)
        rejection = Rejected(self._facts(reason, request, 0.0, now))
        self._observer.rejected(None, rejection)
        return rejection

    def turns_away(self, request: AdmissionRequest) -> bool:
        """Whether decide() would reject such a request now. Nothing is counted or drawn."""
        return self._early_obstacle(request, self._clock()) is not None

    def _early_obstacle(self, request: AdmissionRequest, now: float) -> Reason | None:
        # Who waits may wait for something else than this newcomer would: below a tenant's cap, or
        # wide at the head of a lower priority.
        if self._may_have_room() and self._queue.may_run(request):
            return None
        invited = request.attempt == 0 or self._retry_budget.is_invited(now)
        return self._obstacle(request, now, invited)

    def _may_have_room(self) -> bool:
        return self.closed_by is None and self._ledger.has_free_seat()

    def invite_back(self) -> bool:
        """Draws a retry ticket for somebody who was refused elsewhere than here."""
        return self._retry_budget.draw(self._clock())

    def drain(self) -> None:
        self._draining = True
        self._close(Reason.DRAINING)

    def undrain(self) -> None:
        self._draining = False
        self.closed_by = self._ledger.suspended_for or Reason.UPSTREAM_UNAVAILABLE
        if self._ledger.is_usable:
            self._open()

    def wind_up(self) -> None:
        """One that refuses nobody takes its place: who waits runs, over the limit if need be."""
        for waiter in sorted(self._queue.all(), key=lambda one: one.joined_at):
            one = waiter.request
            needs = (one.seats, one.prompt_tokens, one.kv_tokens)
            self._serve(waiter, self._claim(one) or self._ledger.take_regardless(*needs))

    def suspend(self, upstream: str, reason: Reason) -> None:
        self._ledger.suspend(upstream, reason)
        self._lost_one(reason)

    def resume(self, upstream: str) -> None:
        self._ledger.resume(upstream)
        self._open()

    def add(self, account: Account) -> None:
        """With what is taken in it. Raises ValueError when there is one of that name."""
        account.drop_ghost()  # it has one from a time of shadow mode
        self._ledger.add(account)
        if account.suspended_for is None:
            self._open()
        elif not self._ledger.is_usable and not self._draining:
            self.closed_by = account.suspended_for

    def release(self, upstream: str) -> Account:
        """Grants nothing there any more; those who hold seats in it keep them. Raises KeyError."""
        account = self._ledger.release(upstream)
        self._lost_one(Reason.UPSTREAM_UNAVAILABLE)
        return account

    def _lost_one(self, reason: Reason) -> None:
        if self._ledger.is_usable:
            self._grant_waiting()  # a head that waited for this one, the widest, may fit another
        elif not self._draining:
            self._close(reason)

    def _open(self) -> None:
        if not self._draining:
            self.closed_by = None
            self._grant_waiting()

    def hand_over(self) -> None:
        """Whoever waits here and is served elsewhere only, or sooner, goes on waiting there."""
        for waiter in sorted(self._queue.all(), key=lambda one: one.joined_at):
            gate = self._elsewhere(waiter.request)
            if gate is not None and gate is not self:
                self._dequeue(waiter)
                gate.adopt(waiter)
        self._grant_waiting()

    def adopt(self, waiter: Waiter) -> None:
        """At the end of the queue, even if no place is left, one that has waited in another."""
        deadline = waiter.request.deadline
        waiter.moves(self._ledger.width(waiter.request.seats), self._abandon)
        if waiter.timer is not None:
            waiter.timer = waiter.get_loop().call_at(deadline, self._time_out, waiter)
        self._queue.add(waiter)
        self._grant_waiting()

    def limit_changed(self) -> None:
        self._grant_waiting()

    @property
    def load(self) -> float:
        """Seats taken and requests waiting for each usable seat; infinite while there is none."""
        seats = self._ledger.usable_limit
        return (self._ledger.usable_taken + len(self._queue)) / seats if seats else math.inf

    def snapshot(self) -> AdmissionSnapshot:
        return AdmissionSnapshot(
            self._ledger.snapshot(), len(self._queue), self.max_queue_depth, self._draining
        )

    def _obstacle(self, request: AdmissionRequest, now: float, invited: bool) -> Reason | None:
        """Why a newcomer that cannot run at once cannot wait for its turn either."""
        if self.closed_by is not None:
            return self.closed_by
        if not invited and 2 * len(self._queue) > self.max_queue_depth:
            return Reason.RETRY_BUDGET_EXHAUSTED
        if len(self._queue) >= self.max_queue_depth and not self._finds_a_place(request):
            return Reason.TENANT_LIMIT if self._queue.over_cap(request) else Reason.QUEUE_FULL
        if request.deadline <= now:
            return Reason.QUEUE_TIMEOUT
        if self.prospects.are_hopeless(request, now):
            return Reason.DEADLINE_UNREACHABLE
        return None

    def _finds_a_place(self, request: AdmissionRequest) -> bool:
        """In a full queue. Who was admitted once has had one, and keeps it."""
        return request.readmitted or self._makes_room(request) is not None

    def _makes_room(self, request: AdmissionRequest) -> Waiter | None:
        return self._queue.yields_to(request) if self.max_queue_depth else None

    def _claim(self, request: AdmissionRequest) -> Claim | None:
        return self._ledger.take(
            request.seats, request.prompt_tokens, request.kv_tokens, request.affinity
        )

    def _grant(
        self, request: AdmissionRequest, claim: Claim, now: float, time_in_queue_s: float
    ) -> Permit:
        self._drain_estimate.took(claim.seats, now)
        self._retry_budget.admitted(now)
        self._queue.took(request, claim.seats)
        permit = Permit(request, claim, now, time_in_queue_s, self._give_back, self._prefilled)
        self._observer.admitted(request, permit)
        return permit

    def _give_back(self, permit: Permit, ending: Ending) -> None:
        now = self._clock()
        is_ours = self._ledger.give_back(permit.claim)
        self._drain_estimate.gave_back(permit.seats, now - permit.granted_at, now)
        self._queue.gave_back(permit.request, permit.seats)
        self._observer.released(permit, ending)
        self._grant_waiting()
        if not is_ours:
            self._freed_elsewhere(permit.upstream)

    def _prefilled(self, permit: Permit) -> None:
        permit.claim = self._ledger.prefilled(permit.claim)
        self._grant_waiting()
        if not self._ledger.owns(permit.upstream):
            self._freed_elsewhere(permit.upstream)

    def _grant_waiting(self) -> None:
        # Without a free seat, which is how a rush finds them, nobody need be looked at.
        while self._ledger.has_free_seat() and (waiter := self._queue.head()) is not None:
            claim = self._claim(waiter.request)
            if claim is not None:
                self._serve(waiter, claim)
            elif not self._one_passes(waiter):
                return

    def _serve(self, waiter: Waiter, claim: Claim) -> None:
        self._dequeue(waiter)
        now = self._clock()
        waiter.set_result(self._grant(waiter.request, claim, now, now - waiter.joined_at))

    def _one_passes(self, head: Waiter) -> bool:
        """Grants to the next one behind a head that does not fit, if that one does and may."""
        now, request = self._clock(), head.request
        mean_hold_s = self._drain_estimate.expected_wait_s(1, 1, now)
        emptying = self._ledger.emptying(request.seats, request.kv_tokens)
        if head.bypass is None:
            head.bypass = Bypass(request.deadline, emptying, mean_hold_s, now)
        following = self._queue.second()
        if following is None or not head.bypass.allows(following.width, emptying, mean_hold_s, now):
            return False
        claim = self._claim(following.request)
        if claim is None:
            return False
        head.bypass.passed(claim.seats)
        self._serve(following, claim)
        return True

    def _enqueue(self, request: AdmissionRequest, now: float) -> Waiter:
        loop = asyncio.get_running_loop()
        waiter = Waiter(loop, request, self._ledger.width(request.seats), now, self._abandon)
        if request.deadline < math.inf:
            waiter.timer = loop.call_at(request.deadline, self._time_out, waiter)
        if len(self._queue) >= self.max_queue_depth:
            self._evict_for(request)
        self._queue.add(waiter)
        self._grant_waiting()  # under some disciplines a newcomer may pass those who wait
        return waiter

    def _evict_for(self, request: AdmissionRequest) -> None:
        yielding = None if request.readmitted else self._makes_room(request)
        if yielding is not None:
            outranked = yielding.request.priority > request.priority
            self._evict(yielding, Reason.QUEUE_FULL if outranked else Reason.TENANT_LIMIT)

    def _dequeue(self, waiter: Waiter) -> None:
        self._queue.remove(waiter)
        if waiter.timer is not None:
            waiter.timer.cancel()

    def _time_out(self, waiter: Waiter) -> None:
        over_cap = self._queue.over_cap(waiter.request)
        reason = Reason.TENANT_LIMIT if over_cap else Reason.QUEUE_TIMEOUT
        self._evict(waiter, reason, timed_out=True)
        self._grant_waiting()

    def _abandon(self, waiter: Waiter) -> None:
        self._dequeue(waiter)
        self._observer.abandoned(waiter.request, self._clock() - waiter.joined_at)
        self._grant_waiting()

    def _evict(self, waiter: Waiter, reason: Reason, *, timed_out: bool = False) -> None:
        self._dequeue(waiter)
        now = self._clock()
        facts = self._facts(reason, waiter.request, now - waiter.joined_at, now)
        eviction = Evicted(facts, timed_out=timed_out)
        self._observer.evicted(waiter.request, eviction)
        waiter.set_result(eviction)

    def _close(self, reason: Reason) -> None:
        self.closed_by = reason
        if not self._draining:
            self.hand_over()
        for waiter in self._queue.all():
            self._evict(waiter, reason)

    def _facts(
        self, reason: Reason, request: AdmissionRequest, waited_s: float, now: float
    ) -> RefusalFacts:
        return RefusalFacts(
            reason=reason,
            seats=request.seats,
            load=self._ledger.load(len(self._queue), self.max_queue_depth),
            time_in_queue_s=waited_s,
            expected_wait_s=self.prospects.expected_wait_s(request, now),
            may_wait_s=max(request.deadline - now, 0.0),
            may_retry=reason not in HOPELESS and self._retry_budget.draw(now),
        )

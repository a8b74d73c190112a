"""Admits everybody, and finds out who would have been refused.

Each request has a ghost that goes through a real gate, with the real limits, queue and deadlines.
A ghost holds its seats for as long as its request really ran, but from the moment at which its
turn comes. So it may still wait, or run, when the request itself has long ended.

Ghosts have retry tickets of their own, or those that would have been refused would use up what the
few real refusals may draw.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from proxy.admission.gate import Gate
from proxy.admission.ledger import Ledger
from proxy.admission.outcome import HOPELESS, Rejected
from proxy.admission.permit import Permit
from proxy.admission.snapshot import AdmissionSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.admission.account import Account, Claim
    from proxy.admission.outcome import Evicted, Reason
    from proxy.admission.permit import Ending
    from proxy.admission.ports import AdmissionObserver, Discipline, Placement
    from proxy.admission.request import AdmissionRequest, Priority
    from proxy.admission.retry_budget import RetryBudget
    from proxy.admission.waiter import Waiter


class ShadowGate:
    """Stands where a Gate stands; refuses only while that is closed, and lets nobody wait."""

    def __init__(
        self,
        clock: Callable[[], float],
        observer: AdmissionObserver,
        queue: Discipline[Waiter],
        retry_budget: RetryBudget,
        new_placement: Callable[[], Placement],
        freed_elsewhere: Callable[[str], None],
        elsewhere: Callable[[AdmissionRequest], Gate | None],
    ) -> None:
        """`ghosts` is the real gate. Begins without an upstream. See Gate for the rest."""
        self._ledger = Ledger({}, placement=new_placement())
        self._ghosts_that_wait = queue
        self._freed_elsewhere = freed_elsewhere
        self._clock = clock
        self._observer = observer
        self._retry_budget = retry_budget
        self.ghosts = Gate(
            {},
            0,
            clock,
            _GhostObserver(observer),
            queue,
            retry_budget.another(),
            None,
            new_placement(),
            freed_elsewhere,
            elsewhere,
        )

    def decide(self, request: AdmissionRequest) -> Permit | Rejected:
        now = self._clock()
        if request.attempt and not request.readmitted:
            self._retry_budget.redeem(now)
        ghost = self.ghosts.decide(request)
        if isinstance(ghost, Rejected):
            if self.ghosts.closed_by is not None:
                return self._reject(request, ghost)
            self._observer.would_shed(ghost.reason)
        claim = self._take(request)
        give_back, prefilled = partial(self._give_back, ghost), partial(self._prefilled, ghost)
        permit = Permit(request, claim, now, 0.0, give_back, prefilled)
        self._retry_budget.admitted(now)
        self._observer.admitted(request, permit)
        return permit

    def _take(self, request: AdmissionRequest) -> Claim:
        """Where it would run if there is room, so that shadow mode shows where requests go."""
        needs = (request.seats, request.prompt_tokens, request.kv_tokens)
        return self._ledger.take(*needs, request.affinity) or self._ledger.take_regardless(*needs)

    def reject_early(
        self, longest_wait_s: float, attempt: int, tenant: str, priority: Priority
    ) -> Rejected | None:
        if self.ghosts.closed_by is None:
            return None
        rejection = self.ghosts.reject_early(longest_wait_s, attempt, tenant, priority)
        return None if rejection is None else self._reject(None, rejection)

    def invite_back(self) -> bool:
        self.ghosts.invite_back()  # so that who comes back is not taken for uninvited there
        return self._retry_budget.draw(self._clock())

    def drain(self) -> None:
        self.ghosts.drain()

    def undrain(self) -> None:
        self.ghosts.undrain()

    def wind_up(self) -> None:
        """A real gate takes its place: nobody waits here, and the ghosts that do are forgotten."""
        for ghost in self._ghosts_that_wait.all():
            ghost.cancel()

    def suspend(self, upstream: str, reason: Reason) -> None:
        self._ledger.suspend(upstream, reason)
        self.ghosts.suspend(upstream, reason)

    def resume(self, upstream: str) -> None:
        self._ledger.resume(upstream)
        self.ghosts.resume(upstream)

    def add(self, account: Account) -> None:
        """The limits of tokens are its ghost's: only that one is ever held to them."""
        ghost = account.with_ghost()
        ghost.suspended_for = account.suspended_for
        self._ledger.add(account)
        self.ghosts.add(ghost)

    def release(self, upstream: str) -> Account:
        account = self._ledger.release(upstream)
        account.ghost = self.ghosts.release(upstream)
        return account

    def limit_changed(self) -> None:
        self.ghosts.limit_changed()

    def turns_away(self, request: AdmissionRequest) -> bool:
        return self.ghosts.closed_by is not None and self.ghosts.turns_away(request)

    def snapshot(self) -> AdmissionSnapshot:
        """What really runs: over the limit, it may be, and nobody waits."""
        ghosts = self.ghosts.snapshot()
        return AdmissionSnapshot(
            self._ledger.snapshot(), 0, ghosts.max_queue_depth, ghosts.draining
        )

    def _reject(self, request: AdmissionRequest | None, ghost: Rejected) -> Rejected:
        facts = ghost.facts._replace(
            load=ghost.facts.load._replace(in_flight=self._ledger.usable_taken, queue_depth=0),
            may_retry=ghost.reason not in HOPELESS and self._retry_budget.draw(self._clock()),
        )
        rejection = Rejected(facts)
        self._observer.rejected(request, rejection)
        return rejection

    def _give_back(self, ghost: Permit | Waiter | Rejected, permit: Permit, ending: Ending) -> None:
        is_ours = self._ledger.give_back(permit.claim)
        self._observer.released(permit, ending)
        if not is_ours:
            self._freed_elsewhere(permit.upstream)
        if isinstance(ghost, Permit):
            ghost.complete()
        elif not isinstance(ghost, Rejected):
            ghost.add_done_callback(partial(_end_late, self._clock()))

    def _prefilled(self, ghost: Permit | Waiter | Rejected, permit: Permit) -> None:
        """A ghost that had to wait has its prompt read as much later as it waited longer."""
        permit.claim = self._ledger.prefilled(permit.claim)
        if isinstance(ghost, Permit):
            ghost.first_byte()
        elif not isinstance(ghost, Rejected):
            ghost.add_done_callback(partial(_prefill_late, self._clock()))


def _end_late(request_ended_at: float, ghost: Waiter) -> None:
    """Ends a ghost as much later than its request as it waited longer."""
    if ghost.cancelled():  # shadow mode has ended
        return
    outcome = ghost.result()
    if isinstance(outcome, Permit):
        ends_at = request_ended_at + outcome.time_in_queue_s
        ghost.get_loop().call_at(ends_at, outcome.complete)


def _prefill_late(first_byte_at: float, ghost: Waiter) -> None:
    if ghost.cancelled():
        return
    outcome = ghost.result()
    if isinstance(outcome, Permit):
        ghost.get_loop().call_at(first_byte_at + outcome.time_in_queue_s, outcome.first_byte)


class _GhostObserver:
    """Of all that happens to ghosts only their evictions are news."""

    def __init__(self, observer: AdmissionObserver) -> None:
        self._observer = observer

    def evicted(self, request: AdmissionRequest, eviction: Evicted) -> None:
        del request
        self._observer.would_shed(eviction.reason)

    def admitted(self, request: AdmissionRequest, permit: Permit) -> None: ...

    def rejected(self, request: AdmissionRequest | None, rejection: Rejected) -> None: ...

    def abandoned(self, request: AdmissionRequest, time_in_queue_s: float) -> None: ...

    def released(self, permit: Permit, ending: Ending) -> None: ...

    def would_shed(self, reason: Reason) -> None: ...

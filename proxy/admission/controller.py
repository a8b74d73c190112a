"""The entrance to the core: may this request run, and when?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from proxy.admission.disciplines.fifo import Fifo
from proxy.admission.gate import Gate
from proxy.admission.outcome import Refused
from proxy.admission.request import Priority
from proxy.admission.retry_budget import DEFAULT_SHARE, RetryBudget
from proxy.admission.shadow import ShadowGate
from proxy.admission.waiter import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from proxy.admission.outcome import Reason, Rejected
    from proxy.admission.permit import Permit
    from proxy.admission.ports import AdmissionObserver, Discipline, Limit
    from proxy.admission.request import AdmissionRequest
    from proxy.admission.snapshot import AdmissionSnapshot
    from proxy.admission.token_budget import TokenBudgets


class AdmissionController:
    """Gives out seats in engines to requests, in the order of their arrival.

    `limits`: seats per upstream; `token_budgets` bound tokens too. `max_queue_depth`: how many
    requests may wait; at 0 none does. `discipline`: who is next; by default first come, first
    served. `retry_budget`: how many of those refused are invited back.
    `clock` must be the event loop's time(). In `shadow` mode everybody is admitted at once and
    the observer hears who would have been refused.
    """

    def __init__(
        self,
        limits: Mapping[str, Limit],
        max_queue_depth: int,
        clock: Callable[[], float],
        observer: AdmissionObserver,
        discipline: Discipline[Waiter] | None = None,
        retry_budget: RetryBudget | None = None,
        token_budgets: Mapping[str, TokenBudgets] | None = None,
        shadow: bool = False,
    ) -> None:
        make_gate = ShadowGate if shadow else Gate
        self._gate = make_gate(
            limits,
            max_queue_depth,
            clock,
            observer,
            Fifo[Waiter]() if discipline is None else discipline,
            RetryBudget(DEFAULT_SHARE) if retry_budget is None else retry_budget,
            token_budgets,
        )

    def admit(self, request: AdmissionRequest) -> _Admission:
        """`async with` it to get a Permit; leaving without a word is permit.ignore().

        Entering waits for seats until the request's deadline. Raises Rejected or Evicted. A task
        that is cancelled while it waits leaves the queue in that very step.
        """
        return _Admission(self._gate.decide, request)

    def reject_early(
        self,
        longest_wait_s: float = math.inf,
        attempt: int = 0,
        tenant: str = "",
        priority: Priority = Priority.NORMAL,
    ) -> Rejected | None:
        """What a newcomer for one seat would be told now, so that its body need not be read.

        None when it would be admitted or, given that it may wait at all, find a place in the
        queue. A rejection counts as one: the observer has heard of it.
        """
        return self._gate.reject_early(longest_wait_s, attempt, tenant, priority)

    def invite_back(self) -> bool:
        """Whether somebody who was refused elsewhere may be told to come back. Draws a ticket."""
        return self._gate.invite_back()

    def drain(self) -> None:
        """Evicts all who wait and rejects all newcomers, for good. Permits end as they will."""
        self._gate.drain()

    def suspend(self, upstream: str, reason: Reason) -> None:
        """Grants nothing there until resume(); KeyError when there is no such upstream.

        Once no upstream is left, those who wait are evicted and newcomers rejected, for `reason`.
        """
        self._gate.suspend(upstream, reason)

    def resume(self, upstream: str) -> None:
        """Takes back suspend(), however often it was said."""
        self._gate.resume(upstream)

    def limit_changed(self) -> None:
        """To be called when a Limit has moved: whoever fits now is granted."""
        self._gate.limit_changed()

    def snapshot(self) -> AdmissionSnapshot:
        return self._gate.snapshot()


class _Admission:
    """A class rather than a generator, because every request pays for it."""

    __slots__ = ("_decide", "_permit", "_request")

    def __init__(
        self,
        decide: Callable[[AdmissionRequest], Permit | Waiter | Rejected],
        request: AdmissionRequest,
    ) -> None:
        self._decide = decide
        self._request = request
        self._permit: Permit | None = None

    async def __aenter__(self) -> Permit:
        decision = self._decide(self._request)
        outcome = await decision.outcome() if isinstance(decision, Waiter) else decision
        if isinstance(outcome, Refused):
            raise outcome
        self._permit = outcome
        return outcome

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._permit is not None:
            self._permit.ignore()

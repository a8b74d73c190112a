"""The entrance to the core: may this request run, and when?"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from proxy.admission.account import Account
from proxy.admission.disciplines.fifo import Fifo
from proxy.admission.gate import Gate
from proxy.admission.outcome import Refused
from proxy.admission.placement.roomiest import Roomiest
from proxy.admission.pools import Pools
from proxy.admission.request import AdmissionRequest, Priority
from proxy.admission.retry_budget import DEFAULT_SHARE, RetryBudget
from proxy.admission.shadow import ShadowGate
from proxy.admission.snapshot import NO_DEMAND, AdmissionSnapshot, Demand, UpstreamSnapshot
from proxy.admission.waiter import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from proxy.admission.outcome import Reason, Rejected
    from proxy.admission.permit import Permit
    from proxy.admission.pools import AnyGate, Elsewhere
    from proxy.admission.ports import AdmissionObserver, Discipline, Limit, Placement
    from proxy.admission.token_budget import TokenBudgets


class AdmissionController:
    """Gives out seats in engines to requests, in the order of their arrival.

    `limits`: seats per upstream; `token_budgets` bound tokens too. `max_queue_depth`: how many
    requests may wait; at 0 none does. A function of the number of upstreams, where these may come
    and go. `new_discipline`: makes what says who is next; by default first come, first served.
    `retry_budget`: how many of those refused are invited back. `new_placement`: makes what says
    which of several upstreams; by default the one with the most room. `clock` must be the event
    loop's time(). In `shadow` mode everybody is admitted at once and the observer hears who would
    have been refused.
    """

    def __init__(
        self,
        limits: Mapping[str, Limit],
        max_queue_depth: int | Callable[[int], int],
        clock: Callable[[], float],
        observer: AdmissionObserver,
        new_discipline: Callable[[], Discipline[Waiter]] = Fifo[Waiter],
        retry_budget: RetryBudget | None = None,
        token_budgets: Mapping[str, TokenBudgets] | None = None,
        shadow: bool = False,
        new_placement: Callable[[], Placement] = lambda: Roomiest(random.Random()),
    ) -> None:
        self._clock = clock
        self._observer = observer
        self._new_discipline = new_discipline
        self._new_placement = new_placement
        self._retry_budget = retry_budget or RetryBudget(DEFAULT_SHARE)
        self._shadow = shadow
        self._draining = False
        self._leaving: dict[str, Account] = {}
        self._when_empty: dict[str, Callable[[], None]] = {}
        places = max_queue_depth if callable(max_queue_depth) else lambda _: max_queue_depth
        self._pools = Pools(self._make_gate, places)
        for name, limit in limits.items():
            self._pools.add(Account(name, limit, (token_budgets or {}).get(name)))
        self._decide = self._decision()

    def admit(self, request: AdmissionRequest) -> _Admission:
        """`async with` it to get a Permit; leaving without a word is permit.ignore().

        Entering waits for seats until the request's deadline. Raises Rejected or Evicted. A task
        that is cancelled while it waits leaves the queue in that very step.
        """
        if request.seats < 1:
            raise ValueError(f"a request takes at least one seat, not {request.seats}")
        return _Admission(self._decide, request)

    def reject_early(
        self,
        longest_wait_s: float = math.inf,
        attempt: int = 0,
        tenant: str = "",
        priority: Priority = Priority.NORMAL,
    ) -> Rejected | None:
        """What a newcomer for one seat would be told now, so that its body need not be read.

        None when it would be admitted or, given that it may wait at all, find a place in the
        queue. A rejection counts as one: the observer has heard of it. Where the model decides
        which queue it is, only who would be turned away from each of them is rejected.
        """
        gate = self._only
        if gate is None:
            deadline = self._clock() + longest_wait_s
            request = AdmissionRequest(
                1, deadline, tenant=tenant, priority=priority, attempt=attempt
            )
            if not all(gate.turns_away(request) for gate in self._pools):
                return None
            gate = self._pools.least_loaded()
        return gate.reject_early(longest_wait_s, attempt, tenant, priority)

    def invite_back(self) -> bool:
        """Whether somebody who was refused elsewhere may be told to come back. Draws a ticket."""
        return self._pools.of_model(None).invite_back()

    def drain(self) -> None:
        """Evicts all who wait and rejects all newcomers. Permits end as they will."""
        self._draining = True
        for gate in self._pools:
            gate.drain()

    def undrain(self) -> None:
        """Takes back drain()."""
        self._draining = False
        for gate in self._pools:
            gate.undrain()

    def set_shadow(self, shadow: bool) -> None:
        """From now on everybody is admitted, those included who wait; or nobody over the limits.
        What runs is counted on either way. For as long as it runs it counts for no tenant's share,
        and for no ghost."""
        if shadow != self._shadow:
            self._shadow = shadow
            self._pools.remake()
            self._decide = self._decision()

    def places_changed(self) -> None:
        """To be called when the function that was given as `max_queue_depth` has another answer."""
        self._pools.share_places()

    def suspend(self, upstream: str, reason: Reason) -> None:
        """Grants nothing there until resume(); KeyError when there is no such upstream.

        Once no upstream is left that serves the same, those who wait for it are evicted and
        newcomers rejected, for `reason`.
        """
        self._pools.of(upstream).suspend(upstream, reason)

    def resume(self, upstream: str) -> None:
        """Takes back suspend(), however often it was said."""
        self._pools.resume(upstream)

    def limit_changed(self) -> None:
        """To be called when a Limit has moved: whoever fits now is granted."""
        for gate in self._pools:
            gate.limit_changed()

    # Upstreams that come and go

    def add_upstream(
        self,
        name: str,
        limit: Limit,
        budgets: TokenBudgets | None = None,
        models: frozenset[str] | None = None,
        suspended_for: Reason | None = None,
    ) -> None:
        """From now on seats are granted there too, or once it is resumed if it comes suspended.

        One that is leaving stays, with its old limit. `models`: what it serves, if that is known.
        Raises ValueError when it is here already.
        """
        self._when_empty.pop(name, None)
        account = self._leaving.pop(name, None) or Account(name, limit, budgets)
        account.models = account.models if models is None else models
        account.suspended_for = suspended_for
        self._pools.add(account)
        self._decide = self._decision()

    def remove_upstream(self, name: str, when_empty: Callable[[], None] = lambda: None) -> None:
        """No more seats are granted there. Who holds some keeps them: it is in snapshot() until
        the last is given back; then, or at once, `when_empty` is called, unless it has been added
        again. Raises KeyError when there is no such upstream."""
        account = self._pools.remove(name)
        self._leaving[name] = account
        self._when_empty[name] = when_empty
        self._decide = self._decision()
        self._freed(name)

    def serves(self, upstream: str, models: frozenset[str]) -> None:
        """Says which models an upstream serves, whenever that may have changed: those that serve
        the same share a queue, and requests go where their model is. Raises KeyError."""
        self._pools.serves(upstream, models)
        self._decide = self._decision()

    def is_replaceable(self, upstream: str) -> bool:
        """Whether others that serve the same could take what comes. Of one that has left they do
        already."""
        return not self._pools.knows(upstream) or self._pools.can_replace(upstream)

    def upstream(self, name: str) -> UpstreamSnapshot:
        """One of those in snapshot(). Raises KeyError when it is not there."""
        return (self._leaving.get(name) or self._pools.account(name)).snapshot()

    def demand(self, name: str) -> Demand:
        """What is needed of an upstream; nothing, if there is none of that name."""
        if name in self._leaving:
            return NO_DEMAND._replace(taken=self._leaving[name].taken)
        try:
            return self._pools.demand(name, self._clock())
        except KeyError:
            return NO_DEMAND

    def snapshot(self) -> AdmissionSnapshot:
        pools = [gate.snapshot() for gate in self._pools]
        if len(pools) == 1 and not self._leaving:
            return pools[0]
        leaving = [account.snapshot() for account in self._leaving.values()]
        return AdmissionSnapshot(
            upstreams=(*(one for pool in pools for one in pool.upstreams), *leaving),
            queue_depth=sum(pool.queue_depth for pool in pools),
            max_queue_depth=sum(pool.max_queue_depth for pool in pools),
            draining=self._draining,
        )

    def _make_gate(self, elsewhere: Elsewhere) -> tuple[AnyGate, Gate]:
        """Without upstreams; and the one in which requests wait, or their ghosts."""
        queue, budget, freed = self._new_discipline(), self._retry_budget, self._freed
        clock, observer, placement = self._clock, self._observer, self._new_placement
        if self._shadow:
            gate = ShadowGate(clock, observer, queue, budget, placement, freed, elsewhere)
            made: tuple[AnyGate, Gate] = (gate, gate.ghosts)
        else:
            room = Gate({}, 0, clock, observer, queue, budget, None, placement(), freed, elsewhere)
            made = (room, room)
        if self._draining:
            made[0].drain()
        return made

    def _decision(self) -> Callable[[AdmissionRequest], Permit | Waiter | Rejected]:
        """Asked once for each change, so that nobody looks for a pool where there is but one."""
        self._only: AnyGate | None = self._pools.only
        if self._only is not None:
            return self._only.decide
        return lambda request: self._pools.of_model(request.model).decide(request)

    def _freed(self, upstream: str) -> None:
        """Seats came free in an upstream that has left the pool in which they were granted."""
        account = self._leaving.get(upstream)
        if account is None:
            self._pools.of(upstream).limit_changed()
        elif account.is_empty:
            del self._leaving[upstream]
            self._when_empty.pop(upstream)()


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

    async def __aenter__(self) -> Permit:
        decision = self._decide(self._request)
        outcome = await decision.outcome() if isinstance(decision, Waiter) else decision
        if isinstance(outcome, Refused):
            raise outcome
        self._permit: Permit = outcome
        return outcome

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._permit.ignore()

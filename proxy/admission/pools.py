"""Upstreams that serve the same models share one queue: a pool. Requests are routed by their model.

A new upstream, of which nothing is known yet, joins the first pool. Once it is known what an
upstream serves it goes to the pool of those that serve the same, with the seats that are taken in
it. A model that several pools serve (as when an adapter is being loaded on one engine after the
other) goes to the pool with the least load; a model that nobody is known to serve goes to the first
pool, whose engine says what it thinks of it.

Who waits follows the model: when a pool has no upstream left that may be used, or when its model is
found to be served by another one, its waiters go on there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.admission.snapshot import NO_DEMAND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.admission.account import Account
    from proxy.admission.gate import Gate
    from proxy.admission.outcome import Reason, Rejected
    from proxy.admission.permit import Permit
    from proxy.admission.request import AdmissionRequest, Priority
    from proxy.admission.snapshot import AdmissionSnapshot, Demand
    from proxy.admission.waiter import Waiter

    Elsewhere = Callable[[AdmissionRequest], Gate | None]


class AnyGate(Protocol):
    """A Gate, or what stands in its place in shadow mode."""

    def decide(self, request: AdmissionRequest) -> Permit | Waiter | Rejected: ...

    def reject_early(
        self, longest_wait_s: float, attempt: int, tenant: str, priority: Priority
    ) -> Rejected | None: ...

    def turns_away(self, request: AdmissionRequest) -> bool: ...

    def invite_back(self) -> bool: ...

    def drain(self) -> None: ...

    def undrain(self) -> None: ...

    def wind_up(self) -> None:
        """Another gate takes its place: nobody may go on waiting here."""

    def suspend(self, upstream: str, reason: Reason) -> None: ...

    def resume(self, upstream: str) -> None: ...

    def add(self, account: Account) -> None: ...

    def release(self, upstream: str) -> Account: ...

    def limit_changed(self) -> None: ...

    def snapshot(self) -> AdmissionSnapshot: ...


class _Pool:
    """`room` is where its requests wait: the gate itself, or in shadow mode that of the ghosts.
    `models` is None while nobody in it has told."""

    def __init__(self, gate: AnyGate, room: Gate) -> None:
        self.gate = gate
        self.room = room
        self.models: frozenset[str] | None = None
        self.members: dict[str, Account] = {}

    def serves_all_of(self, other: _Pool) -> bool:
        return self is other or (
            self.models is not None and other.models is not None and self.models >= other.models
        )

    def has_another_than(self, upstream: str) -> bool:
        """That could be granted something."""
        return any(
            account.suspended_for is None and account.limit.seats and name != upstream
            for name, account in self.members.items()
        )


class Pools:
    """`make_gate` gives a gate without upstreams, and the one in which its requests wait; it is
    given what to ask where a request could wait elsewhere. `places` says how many may wait, in all
    queues together, in front of so many upstreams."""

    def __init__(
        self, make_gate: Callable[[Elsewhere], tuple[AnyGate, Gate]], places: Callable[[int], int]
    ) -> None:
        self._make_gate = make_gate
        self._places = places
        self._pools = [_Pool(*make_gate(self._elsewhere))]
        self._pool_of: dict[str, _Pool] = {}
        self._by_model: dict[str, list[_Pool]] = {}

    def __iter__(self) -> Iterator[AnyGate]:
        return iter([pool.gate for pool in self._pools])

    @property
    def only(self) -> AnyGate | None:
        """The gate, where there is but one."""
        return self._pools[0].gate if len(self._pools) == 1 else None

    def knows(self, upstream: str) -> bool:
        return upstream in self._pool_of

    def of(self, upstream: str) -> AnyGate:
        """Raises KeyError when there is no such upstream."""
        return self._pool_of[upstream].gate

    def account(self, upstream: str) -> Account:
        """Raises KeyError when there is no such upstream."""
        return self._pool_of[upstream].members[upstream]

    def demand(self, upstream: str, now: float) -> Demand:
        """In shadow mode the ghosts', which are those that are held to limits. Raises KeyError when
        there is no such upstream."""
        pool = self._pool_of[upstream]
        account = pool.members[upstream]
        taken = (account.ghost or account).taken
        if account.suspended_for is not None:
            return NO_DEMAND._replace(taken=taken)
        return pool.room.prospects.demand(taken, now)

    def of_model(self, model: str | None) -> AnyGate:
        pools = self._by_model.get(model or "") or self._pools[:1]
        return pools[0].gate if len(pools) == 1 else _least_loaded(pools)

    def least_loaded(self) -> AnyGate:
        return _least_loaded(self._pools)

    def can_replace(self, upstream: str) -> bool:
        """Whether others that serve all that it does could be granted something. Raises KeyError
        when there is no such upstream."""
        pool = self._pool_of[upstream]
        return any(
            other.has_another_than(upstream) for other in self._pools if other.serves_all_of(pool)
        )

    def add(self, account: Account) -> None:
        """With what is taken in it. Raises ValueError when it is here already."""
        if account.name in self._pool_of:
            raise ValueError(f"there is an upstream {account.name} already")
        self._join(self._pool_for(account.models), account)
        self._rearranged()

    def remove(self, upstream: str) -> Account:
        """Nothing is granted there any more; what is taken may be given back. Raises KeyError."""
        account = self._part(self._pool_of.pop(upstream), upstream)
        self._rearranged()
        return account

    def serves(self, upstream: str, models: frozenset[str]) -> None:
        """Says what an upstream serves, again whenever that may have changed. Raises KeyError."""
        pool = self._pool_of[upstream]
        account = pool.members[upstream]
        account.models = models
        if pool.models == models:
            return
        same = self._that_serve(models)
        if same is None and (pool.models is None or len(pool.members) == 1):
            pool.models = models  # those in it that have told nothing yet are taken for the same
        else:
            self._move(account, pool, same or self._new_pool(models))
        self._rearranged()

    def resume(self, upstream: str) -> None:
        """Nothing keeps it from being granted any more. Raises KeyError."""
        self._pool_of[upstream].gate.resume(upstream)
        self._hand_over()  # some wait for its model where nobody serves it

    def remake(self) -> None:
        """Other gates, as make_gate makes them now, with the upstreams and what is taken there."""
        for pool in self._pools:
            left = pool.gate
            left.wind_up()
            pool.gate, pool.room = self._make_gate(self._elsewhere)
            for name in pool.members:
                pool.gate.add(left.release(name))
        self.share_places()

    def _that_serve(self, models: frozenset[str]) -> _Pool | None:
        return next((pool for pool in self._pools if pool.models == models), None)

    def _pool_for(self, models: frozenset[str] | None) -> _Pool:
        first = self._pools[0]
        if models is None:
            return first
        same = self._that_serve(models)
        if same is None and (first.models is None or not first.members):
            first.models = models
            return first
        return same or self._new_pool(models)

    def _new_pool(self, models: frozenset[str]) -> _Pool:
        pool = _Pool(*self._make_gate(self._elsewhere))
        pool.models = models
        self._pools.append(pool)
        return pool

    def _move(self, account: Account, pool: _Pool, to: _Pool) -> None:
        self._join(to, account)  # first, so that whoever waited for this one may go with it
        self._route()
        self._part(pool, account.name)

    def _join(self, pool: _Pool, account: Account) -> None:
        pool.members[account.name] = account
        self._pool_of[account.name] = pool
        pool.gate.add(account)

    def _part(self, pool: _Pool, upstream: str) -> Account:
        del pool.members[upstream]
        if not pool.members and len(self._pools) > 1:
            self._pools.remove(pool)  # who still runs gives its seats back there
        return pool.gate.release(upstream)

    def _rearranged(self) -> None:
        self._route()
        self.share_places()
        self._hand_over()

    def _hand_over(self) -> None:
        if len(self._pools) > 1:
            for pool in self._pools:
                pool.room.hand_over()

    def _route(self) -> None:
        self._by_model = {}
        for pool in self._pools:
            for model in pool.models or ():
                self._by_model.setdefault(model, []).append(pool)

    def share_places(self) -> None:
        """The places in the queues, by the number of upstreams; one at least, if there are any.
        Whoever waits keeps his place, also where there are fewer than before."""
        upstreams = len(self._pool_of)
        places = self._places(upstreams)
        for pool in self._pools:
            share = places * len(pool.members) // upstreams if upstreams else places
            pool.room.max_queue_depth = max(share, 1) if places else 0

    def _elsewhere(self, request: AdmissionRequest) -> Gate | None:
        """The one with the least load of those that are open and known to serve its model."""
        gates = [pool.room for pool in self._by_model.get(request.model or "", ())]
        open_gates = [gate for gate in gates if gate.closed_by is None]
        return min(open_gates, key=lambda gate: gate.load, default=None)


def _least_loaded(pools: list[_Pool]) -> AnyGate:
    return min(pools, key=lambda pool: (pool.room.closed_by is not None, pool.room.load)).gate

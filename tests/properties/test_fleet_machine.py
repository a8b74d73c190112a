"""Any interleaving of arrivals and endings with upstreams that come, go, move between queues, are
suspended and change their limits.

The model beside the controller knows who holds which seats where, whoever granted them, and what
each upstream has said that it serves.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proxy.admission.controller import AdmissionController
from proxy.admission.outcome import Evicted, Reason, Refused, Rejected
from proxy.admission.permit import Ending, Permit
from proxy.admission.placement.roomiest import Roomiest
from proxy.admission.request import AdmissionRequest
from tests.properties.test_admission_machine import Visitor
from tests.support.admission import MovableLimit
from tests.support.virtual_time import VirtualTimeLoop, settle

NAMES = ("a", "b", "c", "d")
MODELS = ("m1", "m2", "m3")
CLOSING_REASONS = (Reason.UPSTREAM_UNAVAILABLE, Reason.UPSTREAM_STALLED)

ARRIVALS = st.tuples(
    st.one_of(st.just(1), st.integers(1, 3), st.integers(1, 9)),
    st.sampled_from([5.0, 1.0, 0.0, math.inf]),
    st.sampled_from([*MODELS, "nobody's", None]),
)
SERVED = st.frozensets(st.sampled_from(MODELS), min_size=1)


class FleetModel:
    """Hears what the controller does, and checks it. `there`: upstreams that may be granted."""

    def __init__(self) -> None:
        self.limits: dict[str, MovableLimit] = {}
        self.there: set[str] = set()
        self.suspended: set[str] = set()
        self.told: dict[str, frozenset[str]] = {}
        self.draining = False
        self.visitors: dict[int, Visitor] = {}
        self.waiting: list[Visitor] = []
        self.held: list[Permit] = []

    def taken(self, upstream: str) -> int:
        return sum(permit.seats for permit in self.held if permit.upstream == upstream)

    def usable(self) -> set[str]:
        return self.there - self.suspended

    def admitted(self, request: AdmissionRequest, permit: Permit) -> None:
        self.waiting.remove(visitor := self._decided(request, "admitted"))
        assert not self.draining
        assert permit.upstream in self.usable()
        self._check_seats(permit)
        self._check_model(request, permit.upstream)
        self.held.append(permit)
        visitor.permit = permit

    def _check_seats(self, permit: Permit) -> None:
        room = self.limits[permit.upstream].seats - self.taken(permit.upstream)
        assert 0 < permit.seats <= room, "granted above the limit"

    def _check_model(self, request: AdmissionRequest, upstream: str) -> None:
        """Whoever has said what it serves is asked for nothing else that somebody serves."""
        told = {name: self.told[name] for name in self.usable() if name in self.told}
        if any(request.model in models for models in told.values()):
            assert request.model in told.get(upstream, {request.model})

    def rejected(self, request: AdmissionRequest | None, rejection: Rejected) -> None:
        if request is not None:
            self.waiting.remove(self._decided(request, "rejected"))
            self._check_refusal(request, rejection)

    def evicted(self, request: AdmissionRequest, eviction: Evicted) -> None:
        self.waiting.remove(self._decided(request, "evicted"))
        self._check_refusal(request, eviction)

    def abandoned(self, request: AdmissionRequest, time_in_queue_s: float) -> None:
        assert time_in_queue_s >= 0
        self.waiting.remove(visitor := self._decided(request, "abandoned"))
        assert visitor.task.cancelling()

    def released(self, permit: Permit, ending: Ending) -> None:
        assert permit.ending is ending
        self.held.remove(permit)

    def would_shed(self, reason: Reason) -> None:
        raise AssertionError(f"not in shadow mode: {reason}")

    def _decided(self, request: AdmissionRequest, outcome: str) -> Visitor:
        visitor = self.visitors[int(request.tenant)]
        visitor.outcomes.append(outcome)
        return visitor

    def _check_refusal(self, request: AdmissionRequest, refusal: Refused) -> None:
        assert (refusal.reason is Reason.DRAINING) == self.draining
        if refusal.reason in CLOSING_REASONS:
            serving = {name for name in self.usable() if request.model in self.told.get(name, ())}
            assert not serving, "refused though somebody serves its model"


class FleetMachine(RuleBasedStateMachine):
    shadow = False

    @initialize(max_queue_depth=st.sampled_from([12, 3, 1, 0]), first=st.integers(1, 6))
    def open(self, max_queue_depth: int, first: int) -> None:
        self.loop = VirtualTimeLoop()
        self.failures: list[dict[str, object]] = []
        self.loop.set_exception_handler(lambda _, context: self.failures.append(context))
        self.model = self.new_model()
        dice = random.Random(0)  # a run that is run again must go the same way
        self.controller = AdmissionController(
            {},
            max_queue_depth,
            self.loop.time,
            self.model,
            shadow=self.shadow,
            new_placement=lambda: Roomiest(dice),
        )
        self.removals = 0
        self.due: dict[str, int] = {}
        self.add("a", first, None, None)

    def new_model(self) -> FleetModel:
        return FleetModel()

    # What happens

    @rule(arrivals=st.lists(ARRIVALS, min_size=1, max_size=5), at_once=st.booleans())
    def some_arrive(self, arrivals: list[tuple[int, float, str | None]], at_once: bool) -> None:
        for seats, wait_s, model in arrivals:
            number = len(self.model.visitors)
            deadline = self.loop.time() + wait_s
            request = AdmissionRequest(seats, deadline, tenant=str(number), model=model)
            self.model.visitors[number] = visitor = Visitor(request)
            visit = visitor.visit(self.controller, self.model)  # type: ignore[arg-type]  # it has a list of who waits
            visitor.task = self.loop.create_task(visit)
        if at_once:
            self.let_tasks_run()

    @precondition(lambda self: self.model.held)
    @rule(data=st.data(), ending=st.sampled_from(Ending))
    def a_permit_ends(self, data: st.DataObject, ending: Ending) -> None:
        getattr(data.draw(st.sampled_from(self.model.held)), ending.value)()

    @precondition(lambda self: self.model.held)
    @rule(data=st.data())
    def a_request_is_done(self, data: st.DataObject) -> None:
        permit = data.draw(st.sampled_from(self.model.held))
        self.model.visitors[int(permit.request.tenant)].may_go.set()

    @precondition(lambda self: self.model.visitors)
    @rule(data=st.data())
    def a_client_leaves(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(list(self.model.visitors.values()))).task.cancel()

    @precondition(lambda self: len(self.model.there) < len(NAMES))
    @rule(
        data=st.data(),
        seats=st.integers(0, 6),
        models=st.none() | SERVED,
        suspended_for=st.none() | st.sampled_from(CLOSING_REASONS),
    )
    def an_upstream_comes(
        self,
        data: st.DataObject,
        seats: int,
        models: frozenset[str] | None,
        suspended_for: Reason | None,
    ) -> None:
        name = data.draw(st.sampled_from(sorted(set(NAMES) - self.model.there)))
        self.add(name, seats, models, suspended_for)

    @precondition(lambda self: self.model.there)
    @rule(data=st.data())
    def an_upstream_goes(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.there)))
        self.model.there.discard(name)
        self.model.suspended.discard(name)
        self.removals += 1
        self.due[name] = removal = self.removals
        self.controller.remove_upstream(name, lambda: self.is_empty(name, removal))

    @precondition(lambda self: self.model.there)
    @rule(data=st.data(), models=SERVED)
    def an_upstream_says_what_it_serves(self, data: st.DataObject, models: frozenset[str]) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.there)))
        self.model.told[name] = models
        self.controller.serves(name, models)

    @precondition(lambda self: self.model.usable())
    @rule(data=st.data(), reason=st.sampled_from(CLOSING_REASONS))
    def an_upstream_is_suspended(self, data: st.DataObject, reason: Reason) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.usable())))
        self.model.suspended.add(name)
        self.controller.suspend(name, reason)

    @precondition(lambda self: self.model.suspended)
    @rule(data=st.data())
    def an_upstream_is_back(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.suspended)))
        self.model.suspended.discard(name)
        self.controller.resume(name)

    @rule(data=st.data(), seats=st.integers(0, 9))
    def a_limit_moves(self, data: st.DataObject, seats: int) -> None:
        self.model.limits[data.draw(st.sampled_from(sorted(self.model.limits)))].seats = seats
        self.controller.limit_changed()

    @rule(may_wait=st.booleans())
    def somebody_asks_early(self, may_wait: bool) -> None:
        rejection = self.controller.reject_early(longest_wait_s=math.inf if may_wait else 0)
        if not self.model.usable() or self.model.draining:
            assert rejection is not None

    @precondition(lambda self: len(self.model.visitors) > 25)
    @rule()
    def drain(self) -> None:
        self.model.draining = True
        self.controller.drain()
        assert self.model.waiting == [] or self.shadow

    @rule()
    def let_tasks_run(self) -> None:
        self.loop.run_until_complete(settle())

    @rule(seconds=st.sampled_from([0.25, 1.0, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self.let_tasks_run()

    # What must hold after every step

    @invariant()
    def seats_taken_are_the_seats_of_live_permits_whoever_granted_them(self) -> None:
        seen = {one.name: one.in_flight for one in self.controller.snapshot().upstreams}
        held = {name for name in NAMES if self.model.taken(name)}
        assert self.model.there | held <= seen.keys()
        for name, in_flight in seen.items():
            assert in_flight == self.model.taken(name)
            assert self.controller.upstream(name).in_flight == in_flight

    @invariant()
    def an_upstream_that_has_gone_is_seen_no_longer_than_it_is_used(self) -> None:
        if not self.shadow:
            seen = {one.name for one in self.controller.snapshot().upstreams}
            assert all(self.model.taken(name) for name in seen - self.model.there)

    @invariant()
    def the_queues_hold_the_live_waiters(self) -> None:
        if not self.shadow:
            assert self.controller.snapshot().queue_depth == len(self.model.waiting)

    @invariant()
    def nobody_waits_who_fits_where_it_waits(self) -> None:
        for pool in self.controller._pools._pools:
            head = pool.room._queue.head()
            if head is None:
                continue
            usable = [one for one in pool.members.values() if one.suspended_for is None]
            assert usable, "it waits where nobody serves it"
            width = min(head.request.seats, max(one.limit.seats for one in usable))
            taken = [(one.ghost or one).taken for one in usable]
            free = [one.limit.seats - n for one, n in zip(usable, taken, strict=True)]
            assert width == 0 or width > max(free)

    @invariant()
    def each_upstream_is_in_one_queue(self) -> None:
        pools = self.controller._pools._pools
        members = [name for pool in pools for name in pool.members]
        assert sorted(members) == sorted(self.model.there)
        assert all(pool.members for pool in pools) or len(pools) == 1
        for pool in pools:
            assert pool.room._ledger.snapshot() == () or pool.members

    @invariant()
    def a_check_inside_never_fails_and_nobody_has_two_outcomes(self) -> None:
        assert self.failures == []
        for visitor in self.model.visitors.values():
            assert len(visitor.outcomes) <= 1
            if visitor.task.done() and not visitor.task.cancelled():
                visitor.task.result()

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        with contextlib.closing(self.loop):
            self.end_of_all_visits()
            assert self.failures == []
            self.check_each_visitor()
            for name in sorted(self.model.there):
                self.model.there.discard(name)
                self.removals += 1
                self.due[name] = removal = self.removals
                empty = (name, removal)
                self.controller.remove_upstream(name, lambda empty=empty: self.is_empty(*empty))  # type: ignore[misc]  # bound at once
            assert self.due == {}, "somebody was not told that its upstream is empty"
            assert self.controller.snapshot().upstreams == ()
            assert self.controller.snapshot().queue_depth == 0

    # Steps

    def add(
        self, name: str, seats: int, models: frozenset[str] | None, suspended_for: Reason | None
    ) -> None:
        is_leaving = name in self.due
        self.due.pop(name, None)
        if not is_leaving:
            self.model.limits[name] = MovableLimit(seats)
            self.model.told.pop(name, None)
        if models is not None:
            self.model.told[name] = models
        if suspended_for is not None:
            self.model.suspended.add(name)
        self.model.there.add(name)
        limit = self.model.limits[name]
        self.controller.add_upstream(name, limit, None, models, suspended_for)

    def is_empty(self, name: str, removal: int) -> None:
        assert self.due.pop(name) == removal, "told twice, or of one that has come back"
        assert self.model.taken(name) == 0

    def end_of_all_visits(self) -> None:
        for visitor in self.model.visitors.values():
            visitor.may_go.set()
            if visitor.request.deadline == math.inf:
                visitor.task.cancel()
        self.loop.run_until_complete(asyncio.sleep(10))
        self.let_tasks_run()

    def check_each_visitor(self) -> None:
        for visitor in self.model.visitors.values():
            assert visitor.task.done()
            if visitor not in self.model.waiting and not visitor.outcomes:
                assert visitor.task.cancelled()  # before it ever asked
                continue
            (outcome,) = visitor.outcomes
            if not visitor.task.cancelled():
                kind = {"admitted": Permit, "rejected": Rejected, "evicted": Evicted}[outcome]
                assert isinstance(visitor.got, kind)
            elif visitor.permit is not None:
                assert visitor.permit.ending is not None, "the seats of a cancelled grant are lost"


class ShadowModel(FleetModel):
    """In shadow mode limits are for ghosts."""

    def _check_seats(self, permit: Permit) -> None:
        assert permit.seats > 0

    def would_shed(self, reason: Reason) -> None:
        assert reason in Reason


class ShadowFleetMachine(FleetMachine):
    """The same in shadow mode, where ghosts wait, move and hold seats."""

    shadow = True

    def new_model(self) -> FleetModel:
        return ShadowModel()

    @invariant()
    def no_ghost_gives_back_what_it_never_took(self) -> None:
        for pool in self.controller._pools._pools:
            for account in pool.members.values():
                assert account.ghost is not None
                assert account.ghost.taken >= 0

    def end_of_all_visits(self) -> None:
        super().end_of_all_visits()
        # Ghosts that wait for ever are served, so that they can end.
        for limit in self.model.limits.values():
            limit.seats = 99
        for name in sorted(self.model.suspended):
            self.an_upstream_is_served_again(name)
        if not self.model.usable():
            self.add("a", 99, None, None)
        self.controller.limit_changed()
        self.loop.run_until_complete(asyncio.sleep(1000))
        self.let_tasks_run()

    def an_upstream_is_served_again(self, name: str) -> None:
        self.model.suspended.discard(name)
        self.controller.resume(name)


pytestmark = pytest.mark.timeout(180)

TestFleet = FleetMachine.TestCase
TestFleet.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
TestShadowFleet = ShadowFleetMachine.TestCase
TestShadowFleet.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)

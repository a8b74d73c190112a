"""Any interleaving of arrivals, cancels, timeouts, releases, limit changes, suspension and drain.

The machine drives the real controller in virtual time. Rules act without letting tasks run, so
that several things happen between a decision and the moment its task hears of it. Beside it stands
a model that knows only two lists: who waits, in order of arrival, and who holds which seats.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from proxy.admission.controller import AdmissionController
from proxy.admission.outcome import Evicted, Reason, Refused, Rejected
from proxy.admission.permit import Ending, Permit
from proxy.admission.placement.roomiest import Roomiest
from proxy.admission.request import AdmissionRequest
from tests.support.admission import MovableLimit
from tests.support.virtual_time import VirtualTimeLoop, settle

if TYPE_CHECKING:
    from collections.abc import Callable

UPSTREAM_NAMES = ("e", "f")
MOST_SEATS = 14
CLOSING_REASONS = (Reason.UPSTREAM_UNAVAILABLE, Reason.UPSTREAM_STALLED)


ARRIVALS = st.tuples(
    st.one_of(st.just(1), st.integers(1, 3), st.integers(1, 12)),
    st.sampled_from([5.0, 2.0, 1.0, 0.5, 0.0, math.inf]),
)


class Visitor:
    """One request and its task. `outcomes` is what the observer heard, `got` what the task got."""

    def __init__(self, request: AdmissionRequest) -> None:
        self.request = request
        self.outcomes: list[str] = []
        self.passed_by = 0
        self.permit: Permit | None = None
        self.got: Permit | Refused | None = None
        self.may_go = asyncio.Event()
        self.task: asyncio.Task[None]

    async def visit(self, controller: AdmissionController, model: Model) -> None:
        model.waiting.append(self)
        try:
            async with controller.admit(self.request) as self.got:
                await self.may_go.wait()
        except Refused as refusal:
            self.got = refusal

    @property
    def was_granted_but_does_not_know(self) -> bool:
        return self.permit is not None and self.got is None and not self.task.cancelling()


class Model:
    """Hears what the controller does and checks each decision against two plain lists."""

    def __init__(self, limits: dict[str, MovableLimit], max_queue_depth: int) -> None:
        self.limits = limits
        self.max_queue_depth = max_queue_depth
        self.suspended: set[str] = set()
        self.draining = False
        self.visitors: dict[int, Visitor] = {}
        self.waiting: list[Visitor] = []
        self.held: list[Permit] = []
        self.clock: Callable[[], float]

    def taken(self, upstream: str) -> int:
        return sum(permit.seats for permit in self.held if permit.upstream == upstream)

    def usable(self) -> list[str]:
        return [name for name in self.limits if name not in self.suspended]

    def width(self, seats: int) -> int:
        return min(seats, max((self.limits[name].seats for name in self.usable()), default=0))

    def fits(self, seats: int) -> bool:
        width = self.width(seats)
        return width > 0 and any(
            self.taken(name) + width <= self.limits[name].seats for name in self.usable()
        )

    # AdmissionObserver

    def admitted(self, request: AdmissionRequest, permit: Permit) -> None:
        visitor = self._decided(request, "admitted")
        if visitor is not self.waiting[0]:
            self._check_pass(visitor)
        self.waiting.remove(visitor)
        assert not self.draining
        assert permit.upstream in self.usable()
        assert permit.seats == self.width(request.seats)
        room = self.limits[permit.upstream].seats - self.taken(permit.upstream)
        assert permit.seats <= room, "granted above the limit"
        self.held.append(permit)
        visitor.permit = permit

    def rejected(self, request: AdmissionRequest | None, rejection: Rejected) -> None:
        if request is None:
            return
        visitor = self._decided(request, "rejected")
        assert visitor is self.waiting.pop(), "rejected after it had waited"
        self._check_refusal(request, rejection)
        if rejection.reason is Reason.QUEUE_FULL:
            assert len(self.waiting) == self.max_queue_depth
        if rejection.reason is Reason.QUEUE_TIMEOUT:
            assert request.deadline <= self.clock()

    def evicted(self, request: AdmissionRequest, eviction: Evicted) -> None:
        self.waiting.remove(self._decided(request, "evicted"))
        self._check_refusal(request, eviction)
        assert eviction.reason is not Reason.QUEUE_FULL
        if eviction.reason is Reason.QUEUE_TIMEOUT:
            assert abs(request.deadline - self.clock()) < 1e-6

    def abandoned(self, request: AdmissionRequest, time_in_queue_s: float) -> None:
        visitor = self._decided(request, "abandoned")
        self.waiting.remove(visitor)
        assert time_in_queue_s >= 0
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

    def _check_pass(self, visitor: Visitor) -> None:
        head = self.waiting[0]
        assert visitor is self.waiting[1], "somebody who was not the next has overtaken"
        assert not self.fits(head.request.seats), "the head fits, and was overtaken"
        head.passed_by += self.width(visitor.request.seats)
        if head.request.deadline == math.inf:  # others may have no chance, and then stop nobody
            assert head.passed_by <= MOST_SEATS, "the head starves"

    def _check_refusal(self, request: AdmissionRequest, refusal: Refused) -> None:
        assert refusal.facts.seats == request.seats
        assert (refusal.reason is Reason.DRAINING) == self.draining
        if refusal.reason in CLOSING_REASONS:
            assert not self.usable()


class AdmissionMachine(RuleBasedStateMachine):
    @initialize(
        seats=st.lists(st.integers(1, 8), min_size=1, max_size=2),
        max_queue_depth=st.sampled_from([8, 4, 2, 1, 0]),
    )
    def open(self, seats: list[int], max_queue_depth: int) -> None:
        self.loop = VirtualTimeLoop()
        self.failures: list[dict[str, object]] = []
        self.loop.set_exception_handler(lambda _, context: self.failures.append(context))
        limits = {name: MovableLimit(n) for name, n in zip(UPSTREAM_NAMES, seats, strict=False)}
        self.model = Model(limits, max_queue_depth)
        self.model.clock = self.loop.time
        dice = random.Random(0)  # a run that is run again must go the same way
        self.controller = AdmissionController(
            limits,
            max_queue_depth,
            self.loop.time,
            self.model,
            new_placement=lambda: Roomiest(dice),
        )

    # What happens

    @rule(arrivals=st.lists(ARRIVALS, min_size=1, max_size=5), at_once=st.booleans())
    def some_arrive(self, arrivals: list[tuple[int, float]], at_once: bool) -> None:
        for seats, wait_s in arrivals:
            number = len(self.model.visitors)
            request = AdmissionRequest(seats, self.loop.time() + wait_s, tenant=str(number))
            visitor = Visitor(request)
            self.model.visitors[number] = visitor
            visitor.task = self.loop.create_task(visitor.visit(self.controller, self.model))
        if at_once:
            self.let_tasks_run()

    @precondition(lambda self: self.model.waiting and self.model.held)
    @rule()
    def a_stream_of_small_ones_comes_and_goes(self) -> None:
        for _ in range(5):
            if self.model.held:
                self.model.held[0].complete()
            self.some_arrive([(1, math.inf)], at_once=True)

    @precondition(lambda self: self.model.waiting)
    @rule(data=st.data())
    def a_waiting_client_leaves(self, data: st.DataObject) -> None:
        visitor = data.draw(st.sampled_from(self.model.waiting))
        visitor.task.cancel()
        assert visitor not in self.model.waiting, "its place is not free at once"

    @precondition(lambda self: self.model.visitors)
    @rule(data=st.data())
    def any_client_leaves(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(list(self.model.visitors.values()))).task.cancel()

    @precondition(lambda self: self.just_granted())
    @rule(data=st.data())
    def a_client_leaves_in_the_step_of_its_grant(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.just_granted())).task.cancel()

    @precondition(lambda self: self.model.held)
    @rule(data=st.data(), ending=st.sampled_from(Ending))
    def a_permit_ends(self, data: st.DataObject, ending: Ending) -> None:
        permit = data.draw(st.sampled_from(self.model.held))
        getattr(permit, ending.value)()

    @precondition(lambda self: self.ended_permits())
    @rule(data=st.data(), ending=st.sampled_from(Ending))
    def a_permit_ends_again(self, data: st.DataObject, ending: Ending) -> None:
        getattr(data.draw(st.sampled_from(self.ended_permits())), ending.value)()

    @precondition(lambda self: self.model.held)
    @rule(data=st.data())
    def a_request_is_done(self, data: st.DataObject) -> None:
        permit = data.draw(st.sampled_from(self.model.held))
        self.model.visitors[int(permit.request.tenant)].may_go.set()

    @precondition(lambda self: self.timed_waiters() and self.model.held)
    @rule(data=st.data(), order=st.permutations(["release", "leave", "change"]))
    def all_at_once_at_a_deadline(self, data: st.DataObject, order: list[str]) -> None:
        visitor = data.draw(st.sampled_from(self.timed_waiters()))
        permit = data.draw(st.sampled_from(self.model.held))
        acts = {
            "release": permit.complete,
            "leave": visitor.task.cancel,
            "change": self.controller.limit_changed,
        }
        for name in order:
            self.loop.call_at(visitor.request.deadline, acts[name])
        self.pass_time(visitor.request.deadline - self.loop.time())

    @rule(data=st.data(), seats=st.integers(0, MOST_SEATS))
    def a_limit_moves(self, data: st.DataObject, seats: int) -> None:
        name = data.draw(st.sampled_from(list(self.model.limits)))
        self.model.limits[name].seats = seats
        self.controller.limit_changed()

    @rule(may_wait=st.booleans())
    def somebody_asks_early(self, may_wait: bool) -> None:
        model = self.model
        rejection = self.controller.reject_early(longest_wait_s=math.inf if may_wait else 0)
        free = not model.waiting and model.fits(1)
        place = may_wait and len(model.waiting) < model.max_queue_depth
        is_open = not model.draining and bool(model.usable())
        assert (rejection is None) == (is_open and (free or place))

    @rule()
    def let_tasks_run(self) -> None:
        self.loop.run_until_complete(settle())

    @rule(seconds=st.sampled_from([0.25, 0.5, 1.0, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.pass_time(seconds)

    # What must hold after every step

    @invariant()
    def seats_taken_are_the_seats_of_live_permits(self) -> None:
        for upstream in self.controller.snapshot().upstreams:
            assert upstream.in_flight == self.model.taken(upstream.name)

    @invariant()
    def the_queue_holds_the_live_waiters_and_no_more_than_it_may(self) -> None:
        depth = self.controller.snapshot().queue_depth
        assert depth == len(self.model.waiting) <= self.model.max_queue_depth

    @invariant()
    def nobody_waits_who_fits(self) -> None:
        if self.model.waiting:
            assert not self.model.fits(self.model.waiting[0].request.seats)
            assert self.model.usable()
            assert not self.model.draining

    @invariant()
    def no_check_failed_inside_a_callback_or_a_task(self) -> None:
        assert self.failures == []
        for visitor in self.model.visitors.values():
            if visitor.task.done() and not visitor.task.cancelled():
                visitor.task.result()

    @invariant()
    def nobody_has_two_outcomes(self) -> None:
        assert all(len(visitor.outcomes) <= 1 for visitor in self.model.visitors.values())

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        with contextlib.closing(self.loop):
            self.end_of_all_visits()
            assert self.failures == []
            self.check_each_visitor()
            assert self.controller.snapshot().in_flight == 0
            assert self.controller.snapshot().queue_depth == 0

    # Steps and views

    def end_of_all_visits(self) -> None:
        for visitor in self.model.visitors.values():
            visitor.may_go.set()
            if visitor.request.deadline == math.inf:
                visitor.task.cancel()
        self.pass_time(10)

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
            elif visitor.got is None and visitor.permit is not None:
                assert visitor.permit.ending is not None, "the seats of a cancelled grant are lost"

    def pass_time(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self.let_tasks_run()
        now = self.loop.time()
        assert all(visitor.request.deadline > now for visitor in self.model.waiting)

    def just_granted(self) -> list[Visitor]:
        return [v for v in self.model.visitors.values() if v.was_granted_but_does_not_know]

    def timed_waiters(self) -> list[Visitor]:
        return [v for v in self.model.waiting if v.request.deadline < math.inf]

    def ended_permits(self) -> list[Permit]:
        permits = (visitor.permit for visitor in self.model.visitors.values())
        return [permit for permit in permits if permit is not None and permit.ending is not None]


class ClosingMachine(AdmissionMachine):
    """The same, while engines are suspended, come back, and the gateway drains."""

    @rule(data=st.data(), reason=st.sampled_from(CLOSING_REASONS))
    def an_engine_is_suspended(self, data: st.DataObject, reason: Reason) -> None:
        name = data.draw(st.sampled_from(list(self.model.limits)))
        self.model.suspended.add(name)
        self.controller.suspend(name, reason)

    @precondition(lambda self: self.model.suspended)
    @rule(data=st.data())
    def an_engine_is_back(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.suspended)))
        self.model.suspended.remove(name)
        self.controller.resume(name)

    @precondition(lambda self: len(self.model.visitors) > 20)
    @rule()
    def drain(self) -> None:
        self.model.draining = True
        self.controller.drain()
        assert self.model.waiting == []


# Each is one test of many steps: 10 s on a quiet machine, more than the usual 20 s on a busy one.
pytestmark = pytest.mark.timeout(180)

TestAdmission = AdmissionMachine.TestCase
TestAdmission.settings = settings(max_examples=400, stateful_step_count=60, deadline=None)
TestClosing = ClosingMachine.TestCase
TestClosing.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)

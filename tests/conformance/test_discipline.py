"""What every Discipline does, whoever it lets go first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from proxy.admission.disciplines.fifo import Fifo
from proxy.admission.disciplines.priority import PriorityDiscipline
from proxy.admission.ports import Discipline
from proxy.admission.request import AdmissionRequest, Priority
from tests.support.queued import QueuedStub

AnyDiscipline: TypeAlias = Discipline[QueuedStub]
Make: TypeAlias = Callable[[Callable[[], float]], AnyDiscipline]

CAP = 4
NO_TIME = 0.0


def fifo(clock: Callable[[], float]) -> AnyDiscipline:
    del clock
    return Fifo[QueuedStub]()


def plain(clock: Callable[[], float]) -> AnyDiscipline:
    return PriorityDiscipline[QueuedStub](clock)


def with_weights_and_caps(clock: Callable[[], float]) -> AnyDiscipline:
    return PriorityDiscipline[QueuedStub](clock, {"a": 3.0, "b": 0.1}, CAP, trickle_share=0.3)


every_discipline = pytest.mark.parametrize("make", [fifo, plain, with_weights_and_caps])


def filled(make: Make, *waiters: QueuedStub) -> AnyDiscipline:
    discipline = make(lambda: NO_TIME)
    for waiter in waiters:
        discipline.add(waiter)
    return discipline


def served(discipline: AnyDiscipline) -> list[QueuedStub]:
    """All who wait, in the order in which they are granted when each is done at once."""
    order = []
    while (head := discipline.head()) is not None:
        discipline.remove(head)
        discipline.took(head.request, head.width)
        discipline.gave_back(head.request, head.width)
        order.append(head)
    return order


def one_tenants(names: str) -> list[QueuedStub]:
    return [QueuedStub(name, tenant="a") for name in names]


@every_discipline
def test_nobody_is_the_head_of_an_empty_queue(make: Make) -> None:
    discipline = filled(make)
    assert discipline.head() is None
    assert len(discipline) == 0
    assert discipline.all() == []
    assert discipline.yields_to(QueuedStub().request) is None


@every_discipline
def test_the_head_stays_in_the_queue_until_it_is_removed(make: Make) -> None:
    waiter = QueuedStub()
    discipline = filled(make, waiter)
    assert discipline.head() is discipline.head() is waiter
    assert len(discipline) == 1
    discipline.remove(waiter)
    assert discipline.head() is None
    assert len(discipline) == 0


@every_discipline
def test_behind_the_head_stands_the_next(make: Make) -> None:
    a, b, c = one_tenants("abc")
    discipline = filled(make, a, b, c)
    assert discipline.second() is b
    assert discipline.head() is a
    discipline.remove(b)
    assert discipline.second() is c
    discipline.remove(a)
    assert discipline.second() is None
    discipline.remove(c)
    assert discipline.second() is None


@every_discipline
def test_alike_are_served_in_the_order_of_their_arrival(make: Make) -> None:
    waiters = one_tenants("abcd")
    assert served(filled(make, *waiters)) == waiters


@every_discipline
def test_whoever_leaves_from_anywhere_does_not_disturb_the_order(make: Make) -> None:
    a, b, c, d, e = one_tenants("abcde")
    discipline = filled(make, a, b, c, d, e)
    for leaver in (c, e, a):
        discipline.remove(leaver)
    assert served(discipline) == [b, d]


@every_discipline
def test_whoever_comes_back_stands_at_the_end(make: Make) -> None:
    a, b = one_tenants("ab")
    discipline = filled(make, a, b)
    discipline.remove(a)
    discipline.add(a)
    assert served(discipline) == [b, a]


@every_discipline
def test_removing_somebody_who_is_not_there_is_an_error_and_changes_nothing(make: Make) -> None:
    waiter, twin = QueuedStub("w", tenant="a"), QueuedStub("w", tenant="a")
    discipline = filled(make, waiter)
    for stranger in (twin, QueuedStub(tenant="nobody")):
        with pytest.raises(KeyError):
            discipline.remove(stranger)
    discipline.remove(waiter)
    with pytest.raises(KeyError):
        discipline.remove(waiter)
    discipline.add(waiter)
    assert served(discipline) == [waiter]


@every_discipline
def test_all_are_those_who_wait(make: Make) -> None:
    waiters = [QueuedStub(tenant=tenant, priority=each) for tenant in "ab" for each in Priority]
    discipline = filled(make, *waiters)
    assert set(discipline.all()) == set(waiters)
    for waiter in discipline.all():  # a list of its own: it may be emptied on the way
        discipline.remove(waiter)
    assert discipline.all() == []


@every_discipline
def test_where_nobody_waits_and_nobody_runs_anybody_may(make: Make) -> None:
    discipline = filled(make)
    wide = AdmissionRequest(100, 1.0, tenant="a")
    assert discipline.may_run(wide)
    assert not discipline.over_cap(wide)
    assert discipline.seats_ahead(wide) == 0


@every_discipline
def test_a_newcomer_does_not_pass_its_like(make: Make) -> None:
    waiter = QueuedStub(tenant="a", width=2)
    discipline = filled(make, waiter)
    assert not discipline.may_run(QueuedStub(tenant="a").request)
    assert discipline.seats_ahead(QueuedStub(tenant="a").request) == 2
    discipline.remove(waiter)
    assert discipline.may_run(QueuedStub(tenant="a").request)


@every_discipline
def test_asking_changes_nothing(make: Make) -> None:
    waiters = [
        QueuedStub(f"{tenant}{number}", tenant=tenant, priority=priority)
        for priority in Priority
        for tenant in "abc"
        for number in range(3)
    ]
    asked, not_asked = filled(make, *waiters), filled(make, *waiters)
    for waiter in waiters:
        asked.may_run(waiter.request)
        asked.over_cap(waiter.request)
        asked.seats_ahead(waiter.request)
        asked.yields_to(waiter.request)
        asked.all()
    assert served(asked) == served(not_asked)


class DisciplineMachine(RuleBasedStateMachine):
    """Any interleaving, beside a set of those who wait and a list of those who run."""

    @initialize(make=st.sampled_from([fifo, plain, with_weights_and_caps]))
    def open(self, make: Make) -> None:
        self.now_s = 0.0
        self.discipline = make(lambda: self.now_s)
        self.is_capped = make is with_weights_and_caps
        self.waiting: dict[QueuedStub, None] = {}
        self.running: list[QueuedStub] = []
        self.last_head: QueuedStub | None = None

    waiters = st.builds(
        QueuedStub,
        tenant=st.sampled_from("abc"),
        priority=st.sampled_from(Priority),
        width=st.sampled_from([1, 1, 1, 2, 5]),
    )

    @rule(waiter=waiters)
    def joins(self, waiter: QueuedStub) -> None:
        self.discipline.add(waiter)
        self.waiting[waiter] = None

    @rule(runner=waiters)
    def comes_and_runs_at_once_if_it_may(self, runner: QueuedStub) -> None:
        if self.discipline.may_run(runner.request):
            assert not self.discipline.over_cap(runner.request)
            self.check_nobody_goes_first(runner)
            self.runs(runner)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def leaves(self, data: st.DataObject) -> None:
        self.forget(data.draw(st.sampled_from(list(self.waiting))))

    @precondition(lambda self: self.discipline.head() is not None)
    @rule(count=st.integers(1, 5))
    def the_next_are_granted(self, count: int) -> None:
        for _ in range(count):
            head = self.discipline.head()
            if head is None:
                return
            assert head in self.waiting
            self.forget(head)
            self.runs(head)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def one_is_done(self, data: st.DataObject) -> None:
        runner = data.draw(st.sampled_from(self.running))
        self.running.remove(runner)
        self.discipline.gave_back(runner.request, runner.width)

    @precondition(lambda self: self.waiting)
    @rule(newcomer=waiters)
    def finds_the_queue_full(self, newcomer: QueuedStub) -> None:
        yielding = self.discipline.yields_to(newcomer.request)
        assert yielding is self.discipline.yields_to(newcomer.request)
        if yielding is None:
            return
        assert yielding in self.waiting
        assert yielding is not self.discipline.head()
        assert yielding.request.priority >= newcomer.request.priority
        its_line = [one for one in self.waiting if of_one_line(one, yielding)]
        assert yielding is its_line[-1], "an older one of the same line was sent away"
        assert not of_one_line(newcomer, yielding), "its own kind was sent away"
        self.forget(yielding)
        self.joins(newcomer)

    @precondition(lambda self: self.waiting)
    @rule()
    def one_passes_the_head(self) -> None:
        second = self.discipline.second()
        if second is not None:
            self.forget(second)
            self.runs(second)

    @rule(seconds=st.sampled_from([0.1, 3.0, 1000.0]))
    def time_passes(self, seconds: float) -> None:
        head = self.discipline.head()
        self.now_s += seconds
        assert self.discipline.head() is head

    @invariant()
    def the_queue_holds_those_who_wait(self) -> None:
        assert len(self.discipline) == len(self.waiting)
        assert set(self.discipline.all()) == set(self.waiting)

    @invariant()
    def the_head_is_the_first_of_its_line_and_only_caps_leave_a_queue_without_one(self) -> None:
        head = self.discipline.head()
        assert self.discipline.head() is head
        if head is not None:
            assert head is next(one for one in self.waiting if of_one_line(one, head))
        elif self.waiting:
            assert self.is_capped

    @invariant()
    def who_stands_behind_the_head_is_another_one_and_no_other_of_its_line_goes_first(self) -> None:
        head, second = self.discipline.head(), self.discipline.second()
        assert self.discipline.head() is head, "a look has changed who is next"
        if second is not None:
            line = [one for one in self.waiting if of_one_line(one, second) and one is not head]
            assert line[0] is second
        elif head is not None and not self.is_capped:
            assert len(self.waiting) == 1

    @invariant()
    def nobody_is_granted_seats_above_its_cap(self) -> None:
        if self.is_capped:
            for tenant in "abc":
                widths = [one.width for one in self.running if one.request.tenant == tenant]
                assert sum(widths) <= CAP or len(widths) == 1

    @invariant()
    def no_more_seats_are_ahead_than_are_queued(self) -> None:
        queued = sum(waiter.width for waiter in self.waiting)
        for priority in Priority:
            ahead = self.discipline.seats_ahead(QueuedStub(tenant="a", priority=priority).request)
            assert 0 <= ahead <= queued

    def teardown(self) -> None:
        """When all who ran are done nobody is kept waiting, and the balance is even."""
        if not hasattr(self, "discipline"):
            return
        while self.waiting or self.running:
            while self.running:
                runner = self.running.pop()
                self.discipline.gave_back(runner.request, runner.width)
            if self.waiting:
                head = self.discipline.head()
                assert head is not None
                self.forget(head)
                self.runs(head)
        assert self.discipline.head() is None
        assert len(self.discipline) == 0
        for tenant in "abc":
            assert self.discipline.may_run(QueuedStub(tenant=tenant, width=100).request)

    def check_nobody_goes_first(self, runner: QueuedStub) -> None:
        head = self.discipline.head()
        if head is not None:
            assert head.request.priority > runner.request.priority
        assert not any(of_one_line(one, runner) for one in self.waiting)

    def forget(self, waiter: QueuedStub) -> None:
        self.discipline.remove(waiter)
        del self.waiting[waiter]

    def runs(self, runner: QueuedStub) -> None:
        self.discipline.took(runner.request, runner.width)
        self.running.append(runner)


def of_one_line(one: QueuedStub, other: QueuedStub) -> bool:
    """Whether the two stand in one line under any discipline."""
    return (one.request.tenant, one.request.priority) == (
        other.request.tenant,
        other.request.priority,
    )


def test_any_interleaving_of_arrivals_grants_departures_and_releases() -> None:
    run_state_machine_as_test(
        DisciplineMachine,
        settings=settings(max_examples=200, stateful_step_count=60, deadline=None),
    )

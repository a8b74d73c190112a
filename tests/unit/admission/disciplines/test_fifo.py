"""What Fifo does beyond what every discipline does (tests/conformance/test_discipline.py)."""

from __future__ import annotations

from proxy.admission.disciplines.fifo import Fifo
from proxy.admission.request import Priority
from tests.support.queued import QueuedStub


def fifo_of(*waiters: QueuedStub) -> Fifo[QueuedStub]:
    fifo = Fifo[QueuedStub]()
    for waiter in waiters:
        fifo.add(waiter)
    return fifo


def test_the_order_is_that_of_arrival_whatever_tenant_and_priority() -> None:
    low = QueuedStub(tenant="t", priority=Priority.LOW)
    high = QueuedStub(tenant="u", priority=Priority.HIGH)
    fifo = fifo_of(low, high)
    assert fifo.head() is low
    fifo.remove(low)
    assert fifo.head() is high


def test_the_newest_is_the_last_to_have_come() -> None:
    a, b, c = (QueuedStub(name) for name in "abc")
    fifo = fifo_of(a, b, c)
    assert fifo.newest() is c
    fifo.remove(c)
    assert fifo.newest() is b
    assert Fifo[QueuedStub]().newest() is None


def test_all_who_wait_are_ahead_of_a_newcomer_with_all_their_seats() -> None:
    a, b = QueuedStub(width=3), QueuedStub(width=2)
    fifo = fifo_of(a, b)
    assert fifo.seats_ahead(QueuedStub(priority=Priority.HIGH).request) == 5
    fifo.remove(a)
    assert fifo.seats_ahead(QueuedStub().request) == fifo.queued_seats == 2


def test_a_newcomer_may_run_when_nobody_waits() -> None:
    a = QueuedStub()
    fifo = fifo_of(a)
    assert not fifo.may_run(QueuedStub().request)
    fifo.remove(a)
    assert fifo.may_run(QueuedStub().request)


def test_nobody_makes_room_and_nobody_has_a_cap() -> None:
    fifo = fifo_of(QueuedStub(priority=Priority.LOW))
    newcomer = QueuedStub(priority=Priority.HIGH).request
    assert fifo.yields_to(newcomer) is None
    fifo.took(newcomer, 1000)
    assert not fifo.over_cap(newcomer)
    fifo.gave_back(newcomer, 1000)


def test_the_second_is_who_came_after_the_first() -> None:
    fifo = Fifo[QueuedStub]()
    assert fifo.second() is None
    waiters = [QueuedStub(name) for name in "abc"]
    for waiter in waiters:
        fifo.add(waiter)
    assert fifo.second() is waiters[1]
    fifo.remove(waiters[0])
    assert fifo.second() is waiters[2]

from __future__ import annotations

import asyncio
import math

import pytest

from proxy.admission.disciplines.fifo import Fifo
from proxy.admission.drain_estimate import DrainEstimate
from proxy.admission.ledger import Ledger
from proxy.admission.prospects import Prospects
from proxy.admission.request import AdmissionRequest
from proxy.admission.snapshot import Demand
from proxy.admission.token_budget import TokenBudgets
from proxy.admission.waiter import Waiter
from tests.support.admission import MovableLimit
from tests.support.virtual_time import now, run


class Gauge:
    """Prospects over an engine of so many seats, each held for one second, all taken."""

    def __init__(self, seats: int, kv_limit: int | None = None, *, knows: bool = True) -> None:
        budgets = TokenBudgets(kv_limit=kv_limit)
        self.ledger = Ledger({"e": MovableLimit(seats)}, {"e": budgets})
        self.queue = Fifo[Waiter]()
        self.drain_estimate = DrainEstimate()
        self.prospects = Prospects(self.ledger, self.queue, self.drain_estimate)
        for moment in range(50 if knows else 0):
            self.drain_estimate.took(seats, moment)
            self.drain_estimate.gave_back(seats, 1.0, moment + 1)

    def fill(self, seats: int, kv_tokens: int = 0) -> None:
        for _ in range(seats):
            assert self.ledger.take(1, 0, kv_tokens) is not None

    def queue_up(self, seats: int = 1, kv_tokens: int = 0) -> None:
        request = AdmissionRequest(seats, math.inf, kv_tokens=kv_tokens)
        loop = asyncio.get_running_loop()
        self.queue.add(Waiter(loop, request, seats, now(), lambda _: None))


def wants(seats: int = 1, wait_s: float = 10.0) -> AdmissionRequest:
    return AdmissionRequest(seats, 50 + wait_s)


def test_the_wait_is_that_of_all_who_go_first() -> None:
    async def scenario() -> None:
        gauge = Gauge(4)
        assert gauge.prospects.expected_wait_s(wants(), 50) == 0
        gauge.fill(4)
        assert gauge.prospects.expected_wait_s(wants(), 50) == 0.25
        gauge.queue_up(seats=3)
        assert gauge.prospects.expected_wait_s(wants(), 50) == 1.0
        assert gauge.prospects.expected_wait_s(wants(seats=9), 50) == 1.75, "it will take 4"

    run(scenario())


def test_while_nothing_was_ever_given_back_nobody_can_tell_and_nobody_is_sent_away() -> None:
    async def scenario() -> None:
        gauge = Gauge(1, knows=False)
        gauge.fill(1)
        gauge.queue_up()
        assert gauge.prospects.expected_wait_s(wants(), 50) == math.inf
        assert not gauge.prospects.are_hopeless(wants(wait_s=0.001), 50)

    run(scenario())


def test_who_would_wait_longer_than_it_may_is_hopeless_with_some_doubt() -> None:
    async def scenario() -> None:
        gauge = Gauge(4)
        gauge.fill(4)
        for _ in range(8):
            gauge.queue_up()
        assert not gauge.prospects.are_hopeless(wants(wait_s=1.61), 50)
        assert gauge.prospects.are_hopeless(wants(wait_s=1.59), 50)

    run(scenario())


def test_who_would_be_the_head_is_never_sent_away() -> None:
    async def scenario() -> None:
        gauge = Gauge(4)
        gauge.fill(4)
        assert not gauge.prospects.are_hopeless(wants(wait_s=0.001), 50)

    run(scenario())


def test_where_tokens_run_out_first_only_the_seats_that_are_taken_turn_over() -> None:
    async def scenario() -> None:
        gauge = Gauge(10, kv_limit=100)
        gauge.fill(2, kv_tokens=50)
        gauge.queue_up(kv_tokens=50)
        gauge.queue_up(kv_tokens=50)
        assert gauge.prospects.expected_wait_s(wants(), 50) == 1.5

    run(scenario())


def test_where_seats_run_out_first_or_none_is_taken_all_of_them_turn_over() -> None:
    async def scenario() -> None:
        for kv_limit, taken in ((None, 2), (100, 0)):
            gauge = Gauge(10, kv_limit)
            gauge.fill(taken)
            gauge.queue_up()
            assert gauge.prospects.expected_wait_s(wants(), 50) == 0

    run(scenario())


def test_one_that_holds_all_tokens_is_the_only_one_to_wait_for() -> None:
    async def scenario() -> None:
        gauge = Gauge(10, kv_limit=100)
        gauge.fill(1, kv_tokens=100)
        gauge.queue_up(kv_tokens=50)
        assert gauge.prospects.expected_wait_s(wants(), 50) == 2.0

    run(scenario())


def test_it_is_not_for_tokens_if_nobody_waits_or_the_first_one_needs_more_seats() -> None:
    async def scenario() -> None:
        gauge = Gauge(10, kv_limit=100)
        gauge.fill(2, kv_tokens=50)
        assert gauge.prospects.expected_wait_s(wants(), 50) == 0
        gauge.queue_up(seats=9)
        assert gauge.prospects.expected_wait_s(wants(), 50) == pytest.approx(0.2)

    run(scenario())


def test_without_a_usable_engine_nobody_can_tell() -> None:
    prospects = Prospects(Ledger({}), Fifo[Waiter](), DrainEstimate())
    assert prospects.expected_wait_s(wants(), 50) == 0
    assert not prospects.are_hopeless(wants(), 50)


def test_the_demand_is_what_is_taken_and_what_waits() -> None:
    async def scenario() -> None:
        gauge = Gauge(4)
        assert tuple(gauge.prospects.demand(3, now())) == (3, 0, 0, 0.0)
        await asyncio.sleep(7)
        gauge.queue_up(seats=3)
        await asyncio.sleep(2)
        gauge.queue_up()
        assert tuple(gauge.prospects.demand(4, now())) == (4, 4, 3, 2.0)

    run(scenario())


def test_what_is_needed_is_what_runs_and_those_who_wait_with_the_width_of_the_first() -> None:
    async def scenario() -> None:
        gauge = Gauge(4)
        assert gauge.prospects.demand(3, now()) == Demand(3, 0, 0, 0.0)
        gauge.queue_up(seats=5)
        gauge.queue_up()
        assert gauge.prospects.demand(3, now() + 2) == Demand(3, 6, 5, 2.0)

    run(scenario())

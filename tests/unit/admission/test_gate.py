from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import pytest

from proxy.admission.disciplines.fifo import Fifo
from proxy.admission.disciplines.priority import PriorityDiscipline
from proxy.admission.gate import Gate
from proxy.admission.outcome import Evicted, Reason, Rejected
from proxy.admission.permit import Permit
from proxy.admission.placement.roomiest import Roomiest
from proxy.admission.request import AdmissionRequest, Priority
from proxy.admission.retry_budget import RetryBudget
from proxy.admission.token_budget import TokenBudgets
from proxy.admission.waiter import Waiter
from tests.support.admission import FirstOfTies, MovableLimit, RecordingObserver
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from proxy.admission.ports import Discipline


class GateInUse:
    """A gate on the running loop's clock. What it decides is kept by the request's name."""

    def __init__(
        self,
        max_queue_depth: int = 10,
        queue: Discipline[Waiter] | None = None,
        budgets: TokenBudgets | None = None,
        **limits: int,
    ) -> None:
        self.limits = {name: MovableLimit(seats) for name, seats in limits.items()}
        self.observer = RecordingObserver()
        self.freed: list[str] = []
        self.elsewhere: Gate | None = None
        self.staying: set[str] = set()
        self.gate = Gate(
            self.limits,
            max_queue_depth,
            asyncio.get_running_loop().time,
            self.observer,
            Fifo[Waiter]() if queue is None else queue,
            RetryBudget(0.2),
            dict.fromkeys(limits, budgets) if budgets else None,
            Roomiest(FirstOfTies()),
            self.freed.append,
            lambda request: None if request.tenant in self.staying else self.elsewhere,
        )
        self.decisions: dict[str, Any] = {}

    def ask(
        self, name: str, seats: int = 1, wait_s: float = 5.0, **more: int
    ) -> Permit | Waiter | Rejected:
        decision = self.gate.decide(AdmissionRequest(seats, now() + wait_s, tenant=name, **more))
        self.decisions[name] = decision
        return decision

    def permit(self, name: str) -> Permit:
        """The permit of a request that was granted, at once or after waiting."""
        decision = self.decisions[name]
        outcome = decision.result() if isinstance(decision, Waiter) else decision
        assert isinstance(outcome, Permit)
        return outcome

    def refusal(self, name: str) -> Rejected | Evicted:
        decision = self.decisions[name]
        outcome = decision.result() if isinstance(decision, Waiter) else decision
        assert isinstance(outcome, (Rejected, Evicted))
        return outcome

    def waiting(self, *names: str) -> bool:
        """Whether these wait, and nobody else."""
        undecided = [
            name
            for name, decision in self.decisions.items()
            if isinstance(decision, Waiter) and not decision.done()
        ]
        assert self.gate.snapshot().queue_depth == len(undecided)
        return undecided == list(names)

    @property
    def in_flight(self) -> int:
        return self.gate.snapshot().in_flight


class TestDeciding:
    def test_free_seats_are_granted_at_once_without_a_future_or_a_timer(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=2)
            assert isinstance(use.ask("a"), Permit)
            assert isinstance(use.ask("b"), Permit)
            assert use.in_flight == 2
            assert use.permit("a").time_in_queue_s == 0.0
            assert not asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]  # no public view of timers

        run(scenario())

    def test_over_the_limit_a_request_waits(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            use.ask("a")
            assert isinstance(use.ask("b"), Waiter)
            assert use.waiting("b")
            assert use.observer.log == ["admitted a"]

        run(scenario())

    def test_a_full_queue_rejects(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=1, e=1)
            use.ask("a")
            use.ask("b")
            rejection = use.ask("c")
            assert isinstance(rejection, Rejected)
            assert rejection.reason is Reason.QUEUE_FULL
            assert use.observer.log == ["admitted a", "rejected c queue_full"]

        run(scenario())

    def test_without_places_nobody_ever_waits(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=0, e=1)
            assert isinstance(use.ask("a"), Permit)
            assert use.ask("b").reason is Reason.QUEUE_FULL
            use.permit("a").complete()
            assert isinstance(use.ask("c"), Permit)

        run(scenario())

    @pytest.mark.parametrize("wait_s", [0.0, -1.0])
    def test_whoever_may_not_wait_is_rejected_unless_a_seat_is_free(self, wait_s: float) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            assert isinstance(use.ask("a", wait_s=wait_s), Permit)
            assert use.ask("b", wait_s=wait_s).reason is Reason.QUEUE_TIMEOUT
            assert use.waiting()

        run(scenario())

    def test_a_newcomer_does_not_overtake_the_head_though_it_would_fit(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=3)
            use.ask("a", seats=2)
            use.ask("wide", seats=2)
            use.ask("narrow", seats=1)
            assert use.waiting("wide", "narrow")

        run(scenario())

    def test_a_limit_of_zero_makes_everybody_wait(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=0)
            use.ask("a")
            assert use.waiting("a")
            await asyncio.sleep(5)
            assert use.refusal("a").reason is Reason.QUEUE_TIMEOUT

        run(scenario())

    def test_one_that_is_due_because_a_newcomer_passed_it_runs_at_once(self) -> None:
        async def scenario() -> None:
            use = GateInUse(queue=PriorityDiscipline(now), e=21)
            use.ask("a", seats=20)
            use.ask("b")
            use.ask("low", seats=2, priority=Priority.LOW)
            use.ask("c")
            use.permit("b").complete()  # for c, who is the first to pass the low one
            use.ask("giant", seats=21)
            use.permit("a").complete()
            assert use.waiting("low", "giant")
            use.ask("high", seats=18, priority=Priority.HIGH)
            assert use.waiting("giant")

        run(scenario())


class TestGivingBack:
    def test_seats_go_to_the_waiters_in_the_order_of_their_arrival(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=2)
            for name in "abcde":
                use.ask(name)
            use.permit("b").complete()
            use.permit("a").drop()
            assert use.waiting("e")
            assert use.observer.of("admitted") == ["a", "b", "c", "d"]
            assert use.observer.of("released") == ["b complete", "a drop"]

        run(scenario())

    def test_wide_seats_given_back_serve_several(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=4)
            use.ask("wide", seats=4)
            for name in "abcde":
                use.ask(name)
            use.permit("wide").complete()
            assert use.waiting("e")
            assert use.in_flight == 4

        run(scenario())

    def test_a_permit_given_back_twice_frees_its_seats_once(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            for name in "abc":
                use.ask(name)
            use.permit("a").complete()
            use.permit("a").ignore()
            assert use.waiting("c")
            assert use.in_flight == 1

        run(scenario())

    def test_a_request_wider_than_the_limit_waits_until_it_can_run_alone(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=3)
            use.ask("a")
            use.ask("b")
            use.ask("huge", seats=100)
            use.ask("c")
            use.permit("a").complete()
            assert use.waiting("huge", "c")
            use.permit("b").complete()
            assert use.permit("huge").seats == 3
            assert use.waiting("c")
            use.permit("huge").complete()
            assert use.in_flight == 1

        run(scenario())

    def test_the_permit_says_how_long_its_request_waited(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            use.ask("a")
            use.ask("b")
            await asyncio.sleep(1.5)
            use.permit("a").complete()
            assert use.permit("b").time_in_queue_s == 1.5

        run(scenario())


class TestLeavingTheQueue:
    def test_a_waiter_is_evicted_at_its_deadline(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            use.ask("a")
            use.ask("b", wait_s=2.0)
            await asyncio.sleep(1.999)
            assert use.waiting("b")
            await asyncio.sleep(0.001)
            eviction = use.refusal("b")
            assert isinstance(eviction, Evicted)
            assert eviction.reason is Reason.QUEUE_TIMEOUT
            assert eviction.facts.time_in_queue_s == 2.0
            assert use.observer.log == ["admitted a", "evicted b queue_timeout"]

        run(scenario())

    def test_a_wait_that_ran_out_is_told_from_a_place_that_was_lost(self) -> None:
        async def scenario() -> None:
            queue = PriorityDiscipline[Waiter](asyncio.get_running_loop().time, None, 1)
            use = GateInUse(queue=queue, e=2)
            use.ask("a")
            use.ask("a", wait_s=1.0)
            await asyncio.sleep(1)
            at_cap = use.refusal("a")
            use.ask("a")
            use.gate.drain()
            drained = use.refusal("a")
            assert [at_cap.reason, drained.reason] == [Reason.TENANT_LIMIT, Reason.DRAINING]
            assert isinstance(at_cap, Evicted)
            assert isinstance(drained, Evicted)
            assert (at_cap.timed_out, drained.timed_out) == (True, False)

        run(scenario())

    def test_each_waits_for_its_own_deadline(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            use.ask("a")
            use.ask("patient", wait_s=9.0)
            use.ask("hasty", wait_s=1.0)
            await asyncio.sleep(1)
            assert use.waiting("patient")

        run(scenario())

    def test_a_head_that_times_out_lets_the_next_in_if_that_fits(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=3)
            use.ask("a", seats=2)
            use.ask("wide", seats=2, wait_s=1.0)
            use.ask("narrow", seats=1)
            await asyncio.sleep(1)
            assert use.permit("narrow").time_in_queue_s == 1.0
            assert use.waiting()

        run(scenario())

    def test_a_head_that_leaves_lets_the_next_in_if_that_fits(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=3)
            use.ask("a", seats=2)
            wide = use.ask("wide", seats=2)
            use.ask("narrow", seats=1)
            assert isinstance(wide, Waiter)
            wide.cancel()
            assert use.in_flight == 3
            assert use.observer.log == ["admitted a", "abandoned wide", "admitted narrow"]

        run(scenario())

    def test_a_waiter_that_leaves_makes_its_place_free_in_the_same_step(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=1, e=1)
            use.ask("a")
            head = use.ask("b")
            assert isinstance(head, Waiter)
            head.cancel()
            assert isinstance(use.ask("c"), Waiter)

        run(scenario())

    def test_a_granted_waiter_is_not_timed_out(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            use.ask("a")
            use.ask("b", wait_s=1.0)
            use.permit("a").complete()
            await asyncio.sleep(10)
            assert use.permit("b").ending is None
            assert use.observer.of("evicted") == []

        run(scenario())

    def test_a_request_without_a_deadline_waits_without_a_timer(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            use.ask("a")
            use.ask("b", wait_s=math.inf)
            assert not asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]  # no public view of timers
            use.permit("a").complete()
            assert use.in_flight == 1

        run(scenario())


class TestMovingLimits:
    def test_a_raised_limit_lets_in_whoever_fits_now(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            for name in "abcd":
                use.ask(name)
            use.limits["e"].seats = 3
            use.gate.limit_changed()
            assert use.waiting("d")

        run(scenario())

    def test_a_limit_lowered_below_in_flight_wakes_nobody_until_below(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=3)
            for name in "abcde":
                use.ask(name)
            use.limits["e"].seats = 1
            use.gate.limit_changed()
            use.permit("a").complete()
            use.permit("b").complete()
            assert use.waiting("d", "e")
            use.permit("c").complete()
            assert use.waiting("e")
            assert use.in_flight == 1

        run(scenario())


class TestSuspension:
    def test_while_the_only_upstream_is_suspended_nobody_gets_in(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            use.ask("a")
            use.ask("b")
            use.gate.suspend("e", Reason.UPSTREAM_STALLED)
            assert use.waiting()
            assert isinstance(use.refusal("b"), Evicted)
            assert use.refusal("b").reason is Reason.UPSTREAM_STALLED
            assert use.ask("c").reason is Reason.UPSTREAM_STALLED
            use.permit("a").drop()
            assert use.ask("d").reason is Reason.UPSTREAM_STALLED
            use.gate.resume("e")
            assert isinstance(use.ask("e"), Permit)

        run(scenario())

    def test_the_latest_reason_is_the_one_given(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            use.gate.suspend("e", Reason.UPSTREAM_STALLED)
            use.gate.suspend("e", Reason.UPSTREAM_UNAVAILABLE)
            assert use.ask("a").reason is Reason.UPSTREAM_UNAVAILABLE

        run(scenario())

    def test_with_another_upstream_left_waiters_keep_waiting_for_that(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1, f=1)
            for name in "abc":
                use.ask(name)
            use.gate.suspend("e", Reason.UPSTREAM_UNAVAILABLE)
            assert use.waiting("c")
            assert use.permit("a").upstream == "e"
            use.permit("a").drop()
            assert use.waiting("c")
            use.permit("b").complete()
            assert use.permit("c").upstream == "f"

        run(scenario())

    def test_a_wide_head_whose_wide_engine_is_suspended_takes_a_smaller_one(self) -> None:
        async def scenario() -> None:
            use = GateInUse(wide=8, small=2)
            use.ask("a")
            assert use.permit("a").upstream == "wide"
            use.ask("b", seats=8)
            assert use.waiting("b")
            use.gate.suspend("wide", Reason.UPSTREAM_UNAVAILABLE)
            assert use.permit("b").upstream == "small"
            assert use.permit("b").seats == 2

        run(scenario())

    def test_an_upstream_that_comes_back_takes_waiters_at_once(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1, f=1)
            use.gate.suspend("e", Reason.UPSTREAM_UNAVAILABLE)
            use.ask("a")
            use.ask("b")
            use.gate.resume("e")
            assert use.permit("b").upstream == "e"

        run(scenario())


class TestDraining:
    def test_waiters_are_evicted_and_newcomers_rejected_for_good(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            for name in "abc":
                use.ask(name)
            use.gate.drain()
            assert use.gate.snapshot().draining
            for name in "bc":
                assert isinstance(use.refusal(name), Evicted)
                assert use.refusal(name).reason is Reason.DRAINING
            use.permit("a").complete()
            assert use.ask("d").reason is Reason.DRAINING
            assert use.in_flight == 0

        run(scenario())

    def test_neither_suspension_nor_resumption_hides_it(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            use.gate.drain()
            use.gate.suspend("e", Reason.UPSTREAM_UNAVAILABLE)
            assert use.ask("a").reason is Reason.DRAINING
            use.gate.resume("e")
            assert use.ask("b").reason is Reason.DRAINING

        run(scenario())


class TestEarlyRejection:
    def test_nobody_is_turned_away_who_would_get_a_seat_or_a_place(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=1, e=1)
            assert use.gate.reject_early() is None
            assert use.gate.reject_early(longest_wait_s=0) is None
            use.ask("a")
            assert use.gate.reject_early() is None
            assert use.observer.log == ["admitted a"]

        run(scenario())

    def test_a_full_queue_turns_away_and_counts_it(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=1, e=1)
            use.ask("a")
            use.ask("b")
            rejection = use.gate.reject_early()
            assert rejection is not None
            assert rejection.reason is Reason.QUEUE_FULL
            assert use.observer.log == ["admitted a", "rejected - queue_full"]

        run(scenario())

    def test_without_a_free_seat_it_turns_away_who_may_not_wait(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            use.ask("a")
            rejection = use.gate.reject_early(longest_wait_s=0)
            assert rejection is not None
            assert rejection.reason is Reason.QUEUE_TIMEOUT

        run(scenario())

    def test_a_free_seat_that_the_head_waits_for_is_not_for_a_newcomer(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=1, e=2)
            use.ask("a")
            use.ask("wide", seats=2)
            rejection = use.gate.reject_early()
            assert rejection is not None
            assert rejection.reason is Reason.QUEUE_FULL

        run(scenario())

    @pytest.mark.parametrize("reason", [Reason.DRAINING, Reason.UPSTREAM_UNAVAILABLE])
    def test_a_closed_gate_turns_everybody_away(self, reason: Reason) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            if reason is Reason.DRAINING:
                use.gate.drain()
            else:
                use.gate.suspend("e", reason)
            rejection = use.gate.reject_early()
            assert rejection is not None
            assert rejection.reason is reason

        run(scenario())


class TestFacts:
    def test_a_refusal_says_what_was_measured(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=2, e=4)
            use.ask("a", seats=4)
            use.ask("b", seats=3)
            use.ask("c")
            facts = use.ask("d", seats=2).facts
            assert facts.reason is Reason.QUEUE_FULL
            assert facts.seats == 2
            assert (facts.load.in_flight, facts.load.limit) == (4, 4)
            assert (facts.load.queue_depth, facts.load.max_queue_depth) == (2, 2)
            assert facts.time_in_queue_s == 0.0
            assert math.isinf(facts.expected_wait_s)

        run(scenario())

    def test_the_expected_wait_covers_all_seats_ahead_and_its_own(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=3, e=2)
            for _ in range(200):  # two seats, given back every second
                use.ask("a", seats=2)
                await asyncio.sleep(1)
                use.permit("a").complete()
            use.ask("a", seats=2)
            for name in "bcd":
                use.ask(name)
            assert use.ask("e", seats=1).facts.expected_wait_s == pytest.approx(2.0, rel=0.05)
            assert use.ask("f", seats=9).facts.expected_wait_s == pytest.approx(2.5, rel=0.05)

        run(scenario())


class LastComeFirstServed(Fifo[Waiter]):
    """A discipline under which a newcomer is the head."""

    def head(self) -> Waiter | None:
        waiters = self.all()
        return waiters[-1] if waiters else None

    def may_run(self, request: AdmissionRequest) -> bool:
        del request
        return True


def test_a_discipline_that_lets_a_newcomer_pass_leaves_nobody_waiting_who_fits() -> None:
    async def scenario() -> None:
        use = GateInUse(e=3, queue=LastComeFirstServed())
        use.ask("a", seats=2)
        use.ask("wide", seats=2)
        use.ask("narrow", seats=1)
        assert use.permit("narrow").seats == 1
        assert use.waiting("wide")

    run(scenario())


class TestRetries:
    def test_who_is_refused_draws_a_ticket_while_there_are_any(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=0, e=1)
            use.ask("a")
            invited = [use.ask("b").facts.may_retry for _ in range(20)]
            assert invited == [True] * 10 + [False] * 10

        run(scenario())

    def test_admissions_pay_for_tickets(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=0, e=1)
            use.ask("a")
            while use.ask("b").facts.may_retry:
                pass
            for _ in range(6):
                use.permit("a").complete()
                use.ask("a")
            assert [use.ask("b").facts.may_retry for _ in range(2)] == [True, False]

        run(scenario())

    def test_a_retry_that_nobody_invited_is_shed_first_while_the_queue_is_more_than_half_full(
        self,
    ) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=4, e=1)
            use.ask("a")
            use.ask("b")
            use.ask("c")
            assert isinstance(use.ask("retry at half", attempt=1), Waiter)
            rejection = use.ask("retry beyond", attempt=1)
            assert rejection.reason is Reason.RETRY_BUDGET_EXHAUSTED
            assert not rejection.facts.may_retry
            assert use.gate.reject_early(attempt=2).reason is Reason.RETRY_BUDGET_EXHAUSTED
            assert use.gate.reject_early() is None
            assert isinstance(use.ask("first try"), Waiter)

        run(scenario())

    def test_as_many_retries_as_were_invited_are_taken_for_those(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=4, e=1)
            for name in "abcde":
                use.ask(name)
            assert use.ask("refused").facts.may_retry
            use.decisions["e"].cancel()
            assert use.gate.reject_early(attempt=1) is None
            assert isinstance(use.ask("invited", attempt=1), Waiter)
            use.decisions["d"].cancel()
            assert use.ask("uninvited", attempt=1).reason is Reason.RETRY_BUDGET_EXHAUSTED

        run(scenario())

    def test_a_retry_that_is_refused_early_has_used_its_ticket(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=4, e=1)
            for name in "abcde":
                use.ask(name)
            while use.gate.invite_back():
                pass
            for _ in range(10):
                assert use.gate.reject_early(attempt=1).reason is Reason.QUEUE_FULL
            assert use.gate.reject_early(attempt=1).reason is Reason.RETRY_BUDGET_EXHAUSTED

        run(scenario())

    def test_a_first_try_that_is_refused_early_uses_none(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=4, e=1)
            for name in "abcde":
                use.ask(name)
            while use.gate.invite_back():
                pass
            for _ in range(20):
                assert use.gate.reject_early().reason is Reason.QUEUE_FULL
            assert use.gate.reject_early(attempt=1).reason is Reason.QUEUE_FULL

        run(scenario())

    def test_no_ticket_is_spent_on_those_whom_the_engine_cannot_serve(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            use.gate.suspend("e", Reason.UPSTREAM_STALLED)
            assert not use.ask("a").facts.may_retry
            use.gate.resume("e")
            use.gate.drain()
            assert use.ask("b").facts.may_retry, "another gateway may take it"

        run(scenario())


class TestDeadlines:
    def test_who_cannot_be_served_in_time_is_told_on_arrival(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=10, e=1)
            for _ in range(100):  # one seat a second
                use.ask("a")
                await asyncio.sleep(1)
                use.permit("a").complete()
            for name in "abcde":
                use.ask(name, wait_s=10)
            assert use.ask("f", wait_s=3).reason is Reason.DEADLINE_UNREACHABLE
            assert use.gate.reject_early(longest_wait_s=3).reason is Reason.DEADLINE_UNREACHABLE
            assert isinstance(use.ask("g", wait_s=3.9), Waiter), "doubt is on the client's side"
            assert use.gate.reject_early(longest_wait_s=10) is None

        run(scenario())

    def test_whoever_would_be_the_head_may_wait_however_slow_the_engine(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=10, e=1)
            use.ask("a")
            await asyncio.sleep(600)
            use.permit("a").complete()
            use.ask("a")
            assert isinstance(use.ask("head", wait_s=1), Waiter)
            assert use.ask("second", wait_s=1).reason is Reason.DEADLINE_UNREACHABLE

        run(scenario())

    def test_while_nobody_can_tell_nobody_is_turned_away_for_it(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            use.ask("a")
            assert isinstance(use.ask("b", wait_s=0.001), Waiter)

        run(scenario())


class TestPassing:
    """The head takes all four seats. Seats are known to be held for a second."""

    async def crowd(self, wait_s: float, budgets: TokenBudgets | None = None) -> GateInUse:
        use = GateInUse(max_queue_depth=20, e=4, budgets=budgets)
        tokens = {"kv_tokens": 100} if budgets else {}
        for name in "abcd":
            use.ask(name, **tokens)
        await asyncio.sleep(1)
        for name in "abcd":
            use.permit(name).complete()
            use.ask(name, **tokens)
        if budgets:
            use.ask("giant", kv_tokens=9999, wait_s=wait_s)
        else:
            use.ask("giant", seats=4, wait_s=wait_s)
        for number in range(10):
            use.ask(f"small {number}", wait_s=99, **tokens)
        return use

    def test_small_ones_pass_for_as_long_as_there_is_time_and_then_room_is_kept(self) -> None:
        async def scenario() -> None:
            use = await self.crowd(wait_s=30.0)
            for name in ("a", "b", "small 0"):
                use.permit(name).complete()
            assert use.waiting("giant", *(f"small {number}" for number in range(3, 10)))
            for name in ("c", "d", "small 1", "small 2"):
                use.permit(name).complete()
            assert use.permit("giant").seats == 4

        run(scenario())

    def test_nobody_passes_where_the_time_is_short(self) -> None:
        async def scenario() -> None:
            use = await self.crowd(wait_s=3.0)
            use.permit("a").complete()
            assert use.waiting("giant", *(f"small {number}" for number in range(10)))

        run(scenario())

    def test_twice_the_time_to_empty_the_engine_is_time_enough(self) -> None:
        async def scenario() -> None:
            use = await self.crowd(wait_s=5.0)  # 4.4 s are needed
            use.permit("a").complete()
            assert use.permit("small 0").seats == 1

        run(scenario())

    def test_as_many_pass_at_once_as_seats_come_free_at_once(self) -> None:
        async def scenario() -> None:
            use = await self.crowd(wait_s=30.0)
            use.limits["e"].seats = 2
            for name in ("a", "b"):
                use.permit(name).complete()
            assert use.in_flight == 2
            use.limits["e"].seats = 4
            use.gate.limit_changed()
            assert use.in_flight == 4
            assert use.waiting("giant", *(f"small {number}" for number in range(2, 10)))

        run(scenario())

    def test_one_that_does_not_fit_either_does_not_pass(self) -> None:
        async def scenario() -> None:
            use = await self.crowd(wait_s=30.0)
            for number in range(10):
                use.decisions.pop(f"small {number}").cancel()
            use.ask("pair", seats=2, wait_s=99)
            use.permit("a").complete()
            assert use.waiting("giant", "pair")
            use.permit("b").complete()
            assert use.permit("pair").seats == 2

        run(scenario())

    def test_a_newcomer_that_may_pass_runs_at_once(self) -> None:
        async def scenario() -> None:
            use = await self.crowd(wait_s=30.0)
            for number in range(10):
                use.decisions.pop(f"small {number}").cancel()
            use.permit("a").complete()
            use.ask("small")
            assert use.permit("small").time_in_queue_s == 0.0

        run(scenario())

    def test_a_head_that_cannot_be_served_in_time_is_passed_and_told_at_its_deadline(self) -> None:
        async def scenario() -> None:
            use = await self.crowd(wait_s=0.5)
            for name in ("a", "b", "c", "d", "small 0", "small 1"):
                use.permit(name).complete()
            assert use.waiting("giant", *(f"small {number}" for number in range(6, 10)))
            await asyncio.sleep(0.5)
            assert use.refusal("giant").reason is Reason.QUEUE_TIMEOUT

        run(scenario())

    def test_tokens_are_kept_free_as_seats_are(self) -> None:
        async def scenario() -> None:
            use = await self.crowd(wait_s=30.0, budgets=TokenBudgets(kv_limit=400))
            for name in ("a", "b", "c"):
                use.permit(name).complete()
            assert use.waiting("giant", *(f"small {number}" for number in range(3, 10)))
            for name in ("d", "small 0", "small 1", "small 2"):
                use.permit(name).complete()
            assert use.permit("giant").claim.kv_tokens == 400

        run(scenario())


class TestTokens:
    def test_a_prompt_waits_until_those_before_it_have_their_first_byte(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=10, budgets=TokenBudgets(prefill_limit=1000))
            use.ask("a", prompt_tokens=700)
            use.ask("b", prompt_tokens=400)
            assert use.waiting("b")
            use.permit("a").first_byte()
            assert use.permit("b").claim.prefill_tokens == 400
            assert use.in_flight == 2

        run(scenario())

    def test_a_giant_prompt_waits_its_turn_and_then_leaves_room_for_small_ones(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=10, budgets=TokenBudgets(prefill_limit=1000))
            use.ask("small", prompt_tokens=300)
            use.ask("giant", prompt_tokens=50_000)
            use.ask("later", prompt_tokens=10)
            assert use.waiting("giant", "later"), "who comes later does not starve the giant"
            use.permit("small").first_byte()
            assert use.permit("giant").claim.prefill_tokens == 750
            assert use.permit("later").claim.prefill_tokens == 10
            assert isinstance(use.ask("small again", prompt_tokens=240), Permit)

        run(scenario())

    def test_kv_tokens_are_held_to_the_end(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=10, budgets=TokenBudgets(kv_limit=1000))
            use.ask("a", kv_tokens=900)
            use.ask("b", kv_tokens=200)
            use.permit("a").first_byte()
            assert use.waiting("b")
            use.permit("a").complete()
            assert use.permit("b").claim.kv_tokens == 200
            facts = use.gate.snapshot().upstreams[0]
            assert (facts.in_flight, facts.prefill_tokens, facts.kv_tokens) == (1, 0, 200)

        run(scenario())

    def test_a_request_for_more_than_all_kv_tokens_runs_alone(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=10, budgets=TokenBudgets(kv_limit=1000))
            use.ask("a", kv_tokens=1)
            use.ask("giant", kv_tokens=9999)
            assert use.waiting("giant")
            use.permit("a").complete()
            assert use.permit("giant").claim.kv_tokens == 1000

        run(scenario())

    def test_a_permit_that_ends_before_its_first_byte_gives_all_tokens_back(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=10, budgets=TokenBudgets(prefill_limit=100, kv_limit=100))
            use.ask("a", prompt_tokens=50, kv_tokens=90)
            use.permit("a").ignore()
            use.permit("a").first_byte()
            facts = use.gate.snapshot().upstreams[0]
            assert (facts.in_flight, facts.prefill_tokens, facts.kv_tokens) == (0, 0, 0)

        run(scenario())

    def test_a_refusal_tells_the_tokens_too(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=0, e=10, budgets=TokenBudgets(kv_limit=1000))
            use.ask("a", prompt_tokens=7, kv_tokens=900)
            facts = use.ask("b", kv_tokens=200).facts
            assert facts.reason is Reason.QUEUE_FULL
            assert (facts.load.kv_tokens, facts.load.kv_limit) == (900, 1000)
            assert (facts.load.prefill_tokens, facts.load.prefill_limit) == (7, None)

        run(scenario())

    def test_where_tokens_bind_the_wait_is_reckoned_by_the_seats_that_are_in_use(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=99, e=60, budgets=TokenBudgets(kv_limit=1000))
            for _ in range(20):  # ten at once, of the sixty seats, for 8 s each
                for number in range(10):
                    use.ask(f"r{number}", kv_tokens=100)
                await asyncio.sleep(8)
                for number in range(10):
                    use.permit(f"r{number}").complete()
            for number in range(10):
                use.ask(f"r{number}", kv_tokens=100)
            for number in range(54):
                use.ask(f"w{number}", wait_s=600, kv_tokens=100)
            late = use.ask("late", wait_s=5, kv_tokens=100)
            assert late.reason is Reason.DEADLINE_UNREACHABLE
            assert late.facts.expected_wait_s == pytest.approx(55 / 10 * 8, rel=0.1)

        run(scenario())


class TestEarlyRejectionBesideCappedTenants:
    def test_who_would_run_at_once_is_not_turned_away_for_a_queue_of_others(self) -> None:
        async def scenario() -> None:
            queue = PriorityDiscipline[Waiter](now, tenant_max_in_flight=1)
            use = GateInUse(max_queue_depth=2, e=8, queue=queue)
            for _ in range(3):
                use.gate.decide(AdmissionRequest(1, now() + 60, tenant="a"))
            assert use.in_flight == 1
            low = Priority.LOW
            assert use.gate.reject_early(tenant="b", priority=low) is None
            assert use.gate.reject_early(longest_wait_s=0, tenant="b", priority=low) is None
            assert use.gate.reject_early(attempt=1, tenant="b") is None
            assert use.gate.reject_early(tenant="a") is not None

        run(scenario())


class TestPlacesInAFullQueue:
    """Tenants and priorities; the only seat is taken by x."""

    def full(self, *waiting: tuple[str, Priority], places: int = 2, cap: int = 9) -> GateInUse:
        queue = PriorityDiscipline[Waiter](now, tenant_max_in_flight=cap)
        use = GateInUse(max_queue_depth=places, e=1, queue=queue)
        use.ask("x")
        for tenant, priority in waiting:
            use.decisions[f"{tenant}{len(use.decisions)}"] = self.more(use, tenant, priority)
        return use

    def more(
        self, use: GateInUse, tenant: str, priority: Priority = Priority.NORMAL, **more: bool
    ) -> Permit | Waiter | Rejected:
        request = AdmissionRequest(1, now() + 5, tenant=tenant, priority=priority, **more)
        return use.gate.decide(request)

    def test_a_higher_priority_takes_the_place_of_the_newest_of_a_lower(self) -> None:
        async def scenario() -> None:
            use = self.full(("a", Priority.NORMAL), ("b", Priority.LOW))
            assert isinstance(self.more(use, "c", Priority.HIGH), Waiter)
            assert use.refusal("b2").reason is Reason.QUEUE_FULL
            assert use.gate.snapshot().queue_depth == 2

        run(scenario())

    def test_a_tenant_with_a_long_line_makes_room_for_another_and_is_told_so(self) -> None:
        async def scenario() -> None:
            use = self.full(*[("a", Priority.NORMAL)] * 3, places=3)
            assert isinstance(self.more(use, "b"), Waiter)
            assert use.refusal("a3").reason is Reason.TENANT_LIMIT
            assert not use.decisions["a2"].done()

        run(scenario())

    def test_while_there_are_places_nobody_loses_one(self) -> None:
        async def scenario() -> None:
            use = self.full(("a", Priority.NORMAL), ("b", Priority.LOW), places=3)
            assert isinstance(self.more(use, "c", Priority.HIGH), Waiter)
            assert not use.decisions["b2"].done()

        run(scenario())

    def test_who_was_admitted_before_takes_nobodys_place(self) -> None:
        async def scenario() -> None:
            use = self.full(("a", Priority.NORMAL), ("b", Priority.LOW))
            again = self.more(use, "c", Priority.HIGH, readmitted=True)
            assert isinstance(again, Waiter)
            assert not use.decisions["b2"].done()

        run(scenario())

    def test_where_nobody_may_wait_any_more_no_place_is_to_be_had(self) -> None:
        async def scenario() -> None:
            use = self.full(("a", Priority.NORMAL), ("b", Priority.LOW))
            use.gate.max_queue_depth = 0
            rejection = self.more(use, "c", Priority.HIGH)
            assert isinstance(rejection, Rejected)
            assert rejection.reason is Reason.QUEUE_FULL
            assert not use.decisions["b2"].done()

        run(scenario())

    def test_who_finds_none_for_its_own_tenants_cap_is_told_so(self) -> None:
        async def scenario() -> None:
            use = self.full(("a", Priority.NORMAL), ("b", Priority.NORMAL), cap=1)
            assert self.more(use, "x").reason is Reason.TENANT_LIMIT
            assert self.more(use, "c").reason is Reason.QUEUE_FULL

        run(scenario())

    def test_a_tenants_seat_that_was_given_back_is_under_its_cap_again(self) -> None:
        async def scenario() -> None:
            use = self.full(cap=1)
            use.permit("x").complete()
            assert isinstance(self.more(use, "x"), Permit)

        run(scenario())

    def test_early_who_names_no_tenant_is_the_one_that_requests_without_a_name_are(self) -> None:
        async def scenario() -> None:
            queue = PriorityDiscipline[Waiter](now, tenant_max_in_flight=1)
            use = GateInUse(max_queue_depth=0, e=8, queue=queue)
            assert use.gate.reject_early() is None
            use.ask("")
            assert use.gate.reject_early() is not None

        run(scenario())

    def test_early_it_is_asked_for_one_seat(self) -> None:
        async def scenario() -> None:
            queue = PriorityDiscipline[Waiter](now, tenant_max_in_flight=2)
            use = GateInUse(max_queue_depth=0, e=8, queue=queue)
            use.ask("a")
            assert use.gate.reject_early(tenant="a") is None
            use.ask("a")
            assert use.gate.reject_early(tenant="a") is not None

        run(scenario())


class TestTimes:
    """Nothing begins at 0."""

    def test_time_in_the_queue_is_counted_from_the_arrival(self) -> None:
        async def scenario() -> None:
            await asyncio.sleep(7)
            use = GateInUse(e=1)
            for name in "abcd":
                use.ask(name)
            heard: list[float] = []
            use.observer.abandoned = lambda _, seconds: heard.append(seconds)  # type: ignore[method-assign]
            await asyncio.sleep(2)
            use.permit("a").complete()
            assert use.permit("b").time_in_queue_s == 2.0
            use.decisions["c"].cancel()
            assert heard == [2.0]
            await asyncio.sleep(3)
            assert use.refusal("d").facts.time_in_queue_s == 5.0

        run(scenario())

    def test_a_refusal_says_how_long_one_waited_and_may_still_wait(self) -> None:
        async def scenario() -> None:
            await asyncio.sleep(7)
            use = GateInUse(max_queue_depth=1, e=1)
            for name in "ab":
                use.ask(name)
            await asyncio.sleep(2)
            for facts in (use.ask("c").facts, use.gate.reject_early(longest_wait_s=5).facts):
                assert (facts.time_in_queue_s, facts.may_wait_s) == (0.0, 5.0)
            use.gate.suspend("e", Reason.UPSTREAM_STALLED)
            assert use.refusal("b").facts.may_wait_s == 3.0
            assert use.ask("d", wait_s=-1).facts.may_wait_s == 0.0

        run(scenario())


def test_the_load_is_what_is_taken_and_what_waits_for_each_seat() -> None:
    async def scenario() -> None:
        use = GateInUse(e=2)
        assert use.gate.load == 0.0
        for name in "abc":
            use.ask(name)
        assert use.gate.load == 1.5
        use.gate.suspend("e", Reason.UPSTREAM_STALLED)
        assert use.gate.load == math.inf

    run(scenario())


def test_seats_that_come_free_here_are_no_news_elsewhere() -> None:
    async def scenario() -> None:
        use = GateInUse(e=1, budgets=TokenBudgets(prefill_limit=9))
        use.ask("a", prompt_tokens=5)
        use.permit("a").first_byte()
        use.permit("a").complete()
        assert use.freed == []

    run(scenario())


def test_a_gate_that_winds_up_lets_each_run_where_there_is_room_if_there_is() -> None:
    async def scenario() -> None:
        use = GateInUse(a=2, b=5)
        use.ask("x")
        use.ask("y", seats=5)
        use.ask("three", seats=3)
        use.ask("four", seats=4)
        use.limits["b"].seats = 8
        use.gate.wind_up()
        assert use.permit("three").upstream == "b"
        assert use.permit("four").upstream == "a"
        assert use.waiting()

    run(scenario())


class TestUpstreamsThatComeAndGo:
    def test_one_that_comes_suspended_closes_nothing(self) -> None:
        async def scenario() -> None:
            use, other = GateInUse(e=1), GateInUse(f=1)
            other.gate.suspend("f", Reason.UPSTREAM_STALLED)
            use.gate.add(other.gate.release("f"))
            assert isinstance(use.ask("a"), Permit)

        run(scenario())

    def test_a_gate_without_an_upstream_stays_closed_when_a_drain_is_taken_back(self) -> None:
        async def scenario() -> None:
            use = GateInUse()
            use.gate.drain()
            use.gate.undrain()
            assert use.ask("a").reason is Reason.UPSTREAM_UNAVAILABLE

        run(scenario())

    def test_a_gate_without_an_upstream_is_closed_until_one_comes(self) -> None:
        async def scenario() -> None:
            empty, full = GateInUse(), GateInUse(e=1)
            assert empty.ask("a").reason is Reason.UPSTREAM_UNAVAILABLE
            empty.gate.add(full.gate.release("e"))
            assert isinstance(empty.ask("b"), Permit)
            assert full.ask("c").reason is Reason.UPSTREAM_UNAVAILABLE

        run(scenario())

    def test_an_upstream_that_comes_is_for_those_who_wait(self) -> None:
        async def scenario() -> None:
            use, other = GateInUse(e=1), GateInUse(f=2)
            for name in "abc":
                use.ask(name)
            use.gate.add(other.gate.release("f"))
            assert [use.permit(name).upstream for name in "abc"] == ["e", "f", "f"]

        run(scenario())

    @pytest.mark.parametrize("reason", [Reason.UPSTREAM_UNAVAILABLE, Reason.UPSTREAM_STALLED])
    def test_one_that_comes_suspended_opens_nothing_and_says_why(self, reason: Reason) -> None:
        async def scenario() -> None:
            use, other = GateInUse(), GateInUse(e=1)
            other.gate.suspend("e", reason)
            use.gate.add(other.gate.release("e"))
            assert use.ask("a").reason is reason
            use.gate.resume("e")
            assert isinstance(use.ask("b"), Permit)

        run(scenario())

    def test_when_the_last_one_goes_those_who_wait_are_told(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            use.ask("a")
            use.ask("b")
            use.gate.release("e")
            assert use.refusal("b").reason is Reason.UPSTREAM_UNAVAILABLE
            use.permit("a").complete()
            assert use.freed == ["e"]
            assert use.observer.log[-1] == "released a complete"

        run(scenario())

    def test_a_head_that_waited_for_the_one_that_goes_fits_another(self) -> None:
        async def scenario() -> None:
            use = GateInUse(large=8, small=2)
            use.ask("a", seats=8)
            use.ask("b", seats=4)
            use.gate.release("large")
            assert use.permit("b").upstream == "small"

        run(scenario())

    def test_prompt_tokens_that_come_free_in_another_gate_are_heard_of_there(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=9, budgets=TokenBudgets(prefill_limit=100))
            use.ask("a", prompt_tokens=60)
            use.gate.release("e")
            assert use.freed == []
            use.permit("a").first_byte()
            assert use.freed == ["e"]

        run(scenario())

    def test_a_drained_gate_stays_closed_whoever_comes_and_goes(self) -> None:
        async def scenario() -> None:
            use, other = GateInUse(e=1), GateInUse(f=1)
            use.gate.drain()
            use.gate.add(other.gate.release("f"))
            use.gate.release("e")
            assert use.ask("a").reason is Reason.DRAINING

        run(scenario())


class TestWaitingElsewhere:
    def test_those_who_wait_go_on_in_another_gate_when_this_one_closes(self) -> None:
        async def scenario() -> None:
            use, other = GateInUse(e=1), GateInUse(f=1)
            use.elsewhere = other.gate
            for name in "abc":
                use.ask(name)
            await asyncio.sleep(1)
            use.gate.suspend("e", Reason.UPSTREAM_STALLED)
            assert use.gate.snapshot().queue_depth == 0
            assert use.permit("b").upstream == "f"
            assert use.permit("b").time_in_queue_s == 1
            assert other.observer.log == ["admitted b"]
            assert use.observer.log == ["admitted a"]
            assert other.gate.snapshot().queue_depth == 1

        run(scenario())

    def test_they_have_a_place_there_though_the_queue_is_full(self) -> None:
        async def scenario() -> None:
            use, other = GateInUse(e=1), GateInUse(max_queue_depth=1, f=1)
            use.elsewhere = other.gate
            for each in (use, other):
                for name in "ab":
                    each.ask(name)
            use.gate.suspend("e", Reason.UPSTREAM_STALLED)
            assert other.gate.snapshot().queue_depth == 2
            assert other.ask("c").reason is Reason.QUEUE_FULL

        run(scenario())

    def test_they_are_as_wide_as_that_gate_allows(self) -> None:
        async def scenario() -> None:
            use, other = GateInUse(e=4), GateInUse(f=2)
            use.elsewhere = other.gate
            use.ask("a")
            waiter = use.ask("b", seats=4)
            assert isinstance(waiter, Waiter)
            other.ask("x")
            use.gate.suspend("e", Reason.UPSTREAM_STALLED)
            assert waiter.width == 2
            other.permit("x").complete()
            assert use.permit("b").seats == 2

        run(scenario())

    def test_who_may_stay_stays(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            use.elsewhere = use.gate
            use.ask("a")
            use.ask("b")
            use.gate.hand_over()
            assert use.waiting("b")

        run(scenario())

    def test_who_stays_keeps_its_place_before_one_that_has_come_from_elsewhere(self) -> None:
        async def scenario() -> None:
            use, other = GateInUse(e=1), GateInUse(f=1)
            for name in ("x", "from elsewhere"):
                other.ask(name, wait_s=99)
            await asyncio.sleep(1)
            for name in ("a", "b"):
                use.ask(name, wait_s=99)
            other.elsewhere = use.elsewhere = use.gate
            other.gate.hand_over()
            use.gate.hand_over()
            use.permit("a").complete()
            assert use.permit("b").time_in_queue_s == 0.0

        run(scenario())

    def test_when_the_head_has_gone_the_next_one_runs_if_it_fits(self) -> None:
        async def scenario() -> None:
            use, other = GateInUse(e=2), GateInUse(f=2)
            use.ask("a")
            use.ask("wide", seats=2)
            use.ask("narrow")
            use.elsewhere, use.staying = other.gate, {"narrow"}
            use.gate.hand_over()
            assert use.permit("wide").upstream == "f"
            assert use.permit("narrow").upstream == "e"

        run(scenario())

    def test_their_deadline_goes_with_them(self) -> None:
        async def scenario() -> None:
            use, other = GateInUse(e=1), GateInUse(f=1)
            use.elsewhere = other.gate
            other.ask("x")
            use.ask("a")
            use.ask("b", wait_s=5)
            use.ask("c", wait_s=math.inf)
            await asyncio.sleep(2)
            use.gate.suspend("e", Reason.UPSTREAM_STALLED)
            await asyncio.sleep(2.9)
            assert other.gate.snapshot().queue_depth == 2
            await asyncio.sleep(0.2)
            assert use.refusal("b").reason is Reason.QUEUE_TIMEOUT
            assert other.observer.of("evicted") == ["b queue_timeout"]
            assert use.decisions["c"].timer is None

        run(scenario())

    def test_a_drain_evicts_them_whatever_there_is_elsewhere(self) -> None:
        async def scenario() -> None:
            use, other = GateInUse(e=1), GateInUse(f=1)
            use.elsewhere = other.gate
            use.ask("a")
            use.ask("b")
            use.gate.drain()
            assert use.refusal("b").reason is Reason.DRAINING

        run(scenario())


class TestReadmission:
    def test_who_was_admitted_before_has_a_place_in_a_full_queue(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=1, e=1)
            for name in "ab":
                use.ask(name)
            assert isinstance(use.ask("again", readmitted=True), Waiter)
            assert use.waiting("b", "again")
            assert use.ask("c").reason is Reason.QUEUE_FULL

        run(scenario())

    def test_its_ticket_was_redeemed_the_first_time(self) -> None:
        async def scenario() -> None:
            use = GateInUse(max_queue_depth=2, e=1)
            for name in "abc":
                use.ask(name)
            assert isinstance(use.ask("again", attempt=1, readmitted=True), Waiter)
            assert use.ask("uninvited", attempt=1).reason is Reason.RETRY_BUDGET_EXHAUSTED

        run(scenario())

    def test_its_time_is_not_longer_than_it_was(self) -> None:
        async def scenario() -> None:
            use = GateInUse(e=1)
            use.ask("a")
            assert use.ask("b", wait_s=0.0, readmitted=True).reason is Reason.QUEUE_TIMEOUT

        run(scenario())

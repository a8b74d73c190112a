from __future__ import annotations

import asyncio

import pytest

from proxy.admission.account import Account
from proxy.admission.disciplines.fifo import Fifo
from proxy.admission.outcome import Reason
from proxy.admission.permit import Permit
from proxy.admission.placement.roomiest import Roomiest
from proxy.admission.request import AdmissionRequest, Priority
from proxy.admission.retry_budget import RetryBudget
from proxy.admission.shadow import ShadowGate
from proxy.admission.token_budget import TokenBudgets
from proxy.admission.waiter import Waiter
from tests.support.admission import (
    UPSTREAM,
    Desk,
    FirstOfTies,
    Holder,
    MovableLimit,
    RecordingObserver,
    turns,
)
from tests.support.virtual_time import now, run


def test_under_the_limit_nothing_would_have_been_shed() -> None:
    async def scenario() -> None:
        desk = Desk(limit=2, shadow=True)
        for name in "abcd":
            holder = await desk.arrive(name)
            holder.finish()
            await turns()
        assert desk.observer.of("would_shed") == []
        await desk.close()

    run(scenario())


def test_everybody_is_admitted_at_once_and_counted() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1, max_queue_depth=1, shadow=True)
        for name in "abc":
            holder = await desk.arrive(name, wait_s=0.0 if name == "c" else 5.0)
            assert holder.permit is not None
            assert holder.permit.time_in_queue_s == 0.0
        assert desk.in_flight == 3
        assert desk.queue_depth == 0
        await desk.close()

    run(scenario())


def test_more_than_the_places_would_have_found_the_queue_full() -> None:
    async def scenario() -> None:
        desk = Desk(limit=2, max_queue_depth=3, shadow=True)
        for name in "abcdefg":
            await desk.arrive(name)
        assert desk.observer.of("would_shed") == ["queue_full", "queue_full"]
        await desk.close()

    run(scenario())


def test_whoever_may_not_wait_would_have_been_turned_away() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1, shadow=True)
        await desk.arrive("a")
        await desk.arrive("b", wait_s=0.0)
        assert desk.observer.of("would_shed") == ["queue_timeout"]
        await desk.close()

    run(scenario())


def test_a_virtual_place_is_lost_at_the_deadline() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1, shadow=True)
        await desk.arrive("a")
        await desk.arrive("b", wait_s=2.0)
        await asyncio.sleep(1.9)
        assert desk.observer.of("would_shed") == []
        await asyncio.sleep(0.2)
        assert desk.observer.of("would_shed") == ["queue_timeout"]
        await desk.close()

    run(scenario())


def test_seats_that_come_free_go_to_the_virtual_places_in_order() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1, shadow=True)
        first = await desk.arrive("a")
        await desk.arrive("b", wait_s=2.0)
        await desk.arrive("c", wait_s=2.0)
        first.finish()  # b's turn; c waits behind it in vain
        await asyncio.sleep(3)
        assert desk.observer.of("would_shed") == ["queue_timeout"]
        await desk.close()

    run(scenario())


@pytest.mark.parametrize(("wait_s", "shed"), [(5.0, 0), (3.0, 2)])
def test_a_ghost_runs_as_long_as_its_request_did_from_when_its_turn_comes(
    wait_s: float, shed: int
) -> None:
    """Six requests of 2 s side by side; behind two seats they would run at 0, 2 and 4 s."""

    async def scenario() -> None:
        desk = Desk(limit=2, shadow=True)
        holders = [await desk.arrive(name, wait_s=wait_s) for name in "abcdef"]
        await asyncio.sleep(2)
        for holder in holders:
            holder.finish()
        await asyncio.sleep(20)
        assert desk.in_flight == 0
        assert desk.observer.of("would_shed") == ["queue_timeout"] * shed
        await desk.close()

    run(scenario())


def test_a_request_that_outlives_its_ghosts_wait_frees_the_virtual_seat_later() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1, shadow=True)
        first = await desk.arrive("a")
        second = await desk.arrive("b", wait_s=2.0)
        await asyncio.sleep(1)
        first.finish()  # b's ghost starts 1 s late
        await asyncio.sleep(2)
        second.finish()  # ran 3 s: its ghost ends at 4 s
        await asyncio.sleep(0.5)
        await desk.arrive("c", wait_s=0.0)
        assert desk.observer.of("would_shed") == ["queue_timeout"]
        await asyncio.sleep(1)
        desk.holders[-1].finish()
        await asyncio.sleep(1)
        await desk.arrive("d", wait_s=0.0)
        assert desk.observer.of("would_shed") == ["queue_timeout"]
        await desk.close()

    run(scenario())


def test_draining_refuses_for_real() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1, shadow=True)
        for name in "ab":
            await desk.arrive(name)
        desk.controller.drain()
        refused = await desk.arrive("c")
        assert refused.reason is Reason.DRAINING
        assert refused.refusal is not None
        assert refused.refusal.facts.load.in_flight == 2
        early = desk.controller.reject_early()
        assert early is not None
        assert early.reason is Reason.DRAINING
        assert desk.observer.of("rejected") == ["c draining", "- draining"]
        await desk.close()

    run(scenario())


def test_those_who_would_be_shed_use_up_no_tickets_of_those_who_are_refused() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1, max_queue_depth=1, shadow=True)
        for number in range(100):
            await desk.arrive(str(number))
        assert desk.observer.of("would_shed") == ["queue_full"] * 98
        desk.controller.drain()
        invited = 0
        for _ in range(100):
            refused = desk.controller.reject_early()
            assert refused is not None
            invited += refused.facts.may_retry
        assert invited == 10 + 100 // 5
        assert not desk.controller.invite_back()
        await desk.close()

    run(scenario())


def test_a_retry_that_was_invited_for_real_would_not_have_been_shed_as_uninvited() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1, max_queue_depth=3, shadow=True)
        for name in "abc":
            await desk.arrive(name)
        for is_invited in (False, True):
            if is_invited:
                assert desk.controller.invite_back()
            request = AdmissionRequest(1, desk.loop.time() + 5, attempt=1)
            desk.holders.append(Holder(desk.controller, request))
            await turns()
            assert desk.observer.of("would_shed") == ["retry_budget_exhausted"]
        await desk.close()

    run(scenario())


def test_suspension_refuses_for_real_until_resumed() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1, shadow=True)
        desk.controller.suspend(UPSTREAM, Reason.UPSTREAM_STALLED)
        assert (await desk.arrive("a")).reason is Reason.UPSTREAM_STALLED
        desk.controller.resume(UPSTREAM)
        assert (await desk.arrive("b")).permit is not None
        await desk.close()

    run(scenario())


def test_nobody_is_turned_away_early() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1, max_queue_depth=0, shadow=True)
        await desk.arrive("a")
        assert desk.controller.reject_early() is None
        assert desk.controller.reject_early(longest_wait_s=0) is None
        assert desk.observer.of("rejected") == []
        await desk.close()

    run(scenario())


def test_a_raised_limit_serves_virtual_places() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1, shadow=True)
        await desk.arrive("a")
        await desk.arrive("b", wait_s=1.0)
        desk.limit.seats = 2
        desk.controller.limit_changed()
        await asyncio.sleep(2)
        assert desk.observer.of("would_shed") == []
        await desk.close()

    run(scenario())


def test_requests_go_where_there_is_room_and_over_the_limit_where_least_is_taken() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1, shadow=True)
        desk.controller.add_upstream("other", MovableLimit(3))
        for name in "abcdefgh":
            await desk.arrive(name)
        seats = {one.name: one.in_flight for one in desk.controller.snapshot().upstreams}
        assert seats == {UPSTREAM: 2, "other": 6}
        await desk.close()

    run(scenario())


def test_an_upstream_that_moves_takes_what_would_be_taken_along() -> None:
    async def scenario() -> None:
        desk = Desk(limit=2, max_queue_depth=0, shadow=True)
        desk.controller.add_upstream("other", MovableLimit(2))
        for name in "abcd":
            await desk.arrive(name)
        desk.controller.serves(UPSTREAM, frozenset({"m1"}))
        desk.controller.serves("other", frozenset({"m2"}))
        assert desk.in_flight == 4
        await desk.arrive("e", model="m2")
        assert desk.observer.of("would_shed") == ["queue_full"]
        for holder in desk.holders:
            holder.finish()
        await turns()
        assert desk.in_flight == 0
        for name in "fg":
            await desk.arrive(name, model="m2")
        assert desk.observer.of("would_shed") == ["queue_full"]
        await desk.close()

    run(scenario())


def test_one_that_goes_is_empty_when_the_last_ghost_has_left_it() -> None:
    async def scenario() -> None:
        desk, empty = Desk(limit=1, shadow=True), []
        first = await desk.arrive("a")
        second = await desk.arrive("b")
        await asyncio.sleep(1)
        first.finish()  # b's ghost begins
        await asyncio.sleep(1)
        second.finish()  # and would have run until 3 s
        await turns()
        desk.controller.remove_upstream(UPSTREAM, lambda: empty.append(desk.loop.time()))
        assert desk.in_flight == 0
        await asyncio.sleep(5)
        assert empty == [3.0]
        desk.controller.add_upstream(UPSTREAM, MovableLimit(1))
        await desk.arrive("c")
        await desk.arrive("d", wait_s=0.0)
        assert desk.observer.of("would_shed") == ["queue_timeout"]
        await desk.close()

    run(scenario())


def test_the_limits_of_tokens_go_along_too() -> None:
    async def scenario() -> None:
        desk = Desk(limit=9, max_queue_depth=0, shadow=True)
        desk.controller.remove_upstream(UPSTREAM)
        budgets = TokenBudgets(kv_limit=10)
        desk.controller.add_upstream("other", MovableLimit(9), budgets)
        for _ in range(2):
            request = AdmissionRequest(1, desk.loop.time() + 5, kv_tokens=6)
            desk.holders.append(Holder(desk.controller, request))
            await turns()
        assert desk.observer.of("would_shed") == ["queue_full"]
        assert desk.controller.snapshot().upstreams[0].kv_tokens == 12
        await desk.close()
        assert budgets.kv.taken == 0

    run(scenario())


def test_ghosts_that_wait_go_on_where_their_model_is_left() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1, shadow=True)
        desk.controller.add_upstream("other", MovableLimit(1))
        desk.controller.serves(UPSTREAM, frozenset({"m1"}))
        desk.controller.serves("other", frozenset({"m1", "m2"}))
        for name in "abcd":
            await desk.arrive(name, model="m1")
        desk.controller.remove_upstream(UPSTREAM)
        for holder in desk.holders:
            holder.finish()
        await asyncio.sleep(6)
        assert desk.observer.of("would_shed") == []
        await desk.close()

    run(scenario())


class ShadowInUse:
    """A gate of shadow mode by itself, and what it tells others."""

    def __init__(
        self, *, places: int = 10, prefill_limit: int | None = None, **limits: int
    ) -> None:
        self.observer = RecordingObserver()
        self.freed: list[str] = []
        self.budget = RetryBudget(0.2)
        self.gate = ShadowGate(
            now,
            self.observer,
            Fifo[Waiter](),
            self.budget,
            lambda: Roomiest(FirstOfTies()),
            self.freed.append,
            lambda _: None,
        )
        self.gate.ghosts.max_queue_depth = places
        for name, seats in limits.items():
            budgets = TokenBudgets(prefill_limit=prefill_limit)
            self.gate.add(Account(name, MovableLimit(seats), budgets))

    def admit(self, name: str, seats: int = 1, prompt_tokens: int = 0, **more: int) -> Permit:
        request = AdmissionRequest(seats, now() + 60, prompt_tokens, tenant=name, **more)
        decision = self.gate.decide(request)
        assert isinstance(decision, Permit)
        return decision

    def prefill(self) -> tuple[int, int]:
        """Prompt tokens that are being read, in truth and by ghosts."""
        each = (self.gate.snapshot(), self.gate.ghosts.snapshot())
        real, ghosts = [sum(one.prefill_tokens for one in each.upstreams) for each in each]
        return real, ghosts


def test_the_observer_hears_of_real_requests_from_beginning_to_end_and_nobody_else_does() -> None:
    async def scenario() -> None:
        use = ShadowInUse(places=1, e=1)
        permits = [use.admit(name) for name in "abc"]
        for permit in permits:
            permit.complete()
        assert use.observer.of("admitted") == ["a", "b", "c"]
        assert use.observer.of("released") == ["a complete", "b complete", "c complete"]
        assert use.observer.of("would_shed") == ["queue_full"]
        assert use.freed == []

    run(scenario())


def test_of_several_engines_one_with_room_for_all_its_seats_is_taken() -> None:
    async def scenario() -> None:
        use = ShadowInUse(a=2, b=8)
        assert use.admit("x").upstream == "a"
        assert use.admit("y", seats=5).upstream == "b"
        assert use.admit("three", seats=3).upstream == "b"

    run(scenario())


def test_nobody_is_sent_to_an_engine_that_is_suspended() -> None:
    async def scenario() -> None:
        use = ShadowInUse(a=2, b=2)
        use.gate.suspend("a", Reason.UPSTREAM_STALLED)
        assert [use.admit("x").upstream for _ in range(5)] == ["b"] * 5

    run(scenario())


def test_a_retry_has_its_ticket_taken_once() -> None:
    async def scenario() -> None:
        use = ShadowInUse(e=1)
        assert use.gate.invite_back()
        use.admit("first try")
        use.admit("come back unserved", attempt=1, readmitted=True)
        assert use.budget.outstanding(now()) == 1.0
        use.admit("retry", attempt=1)
        assert use.budget.outstanding(now()) == 0.0

    run(scenario())


def test_a_refusal_tells_of_what_really_runs_and_waits_and_invites_nobody_in_vain() -> None:
    async def scenario() -> None:
        use = ShadowInUse(a=1, b=1)
        for name in "xyz":
            use.admit(name)
        use.gate.suspend("a", Reason.UPSTREAM_STALLED)
        use.gate.suspend("b", Reason.UPSTREAM_STALLED)
        assert use.gate.turns_away(AdmissionRequest(1, now() + 5))
        rejection = use.gate.reject_early(5.0, 0, "", Priority.NORMAL)
        assert rejection is not None
        assert (rejection.facts.load.queue_depth, rejection.facts.may_retry) == (0, False)
        use.gate.resume("a")
        assert not use.gate.turns_away(AdmissionRequest(1, now() + 5))

    run(scenario())


def test_a_ghosts_prompt_is_read_when_that_of_its_request_is() -> None:
    async def scenario() -> None:
        use = ShadowInUse(prefill_limit=100, e=9)
        permit = use.admit("a", prompt_tokens=60)
        assert use.prefill() == (60, 60)
        permit.first_byte()
        assert use.prefill() == (0, 0)

    run(scenario())


def test_the_prompt_of_a_ghost_that_waited_is_read_as_much_later() -> None:
    async def scenario() -> None:
        use = ShadowInUse(prefill_limit=100, e=9)
        first, second = use.admit("a", prompt_tokens=60), use.admit("b", prompt_tokens=50)
        assert use.prefill() == (110, 60)
        await asyncio.sleep(1)
        second.first_byte()
        assert use.prefill() == (60, 60)
        await asyncio.sleep(2)
        first.first_byte()  # after 3 s; b's ghost begins, which has 1 s to go
        assert use.prefill() == (0, 50)
        await asyncio.sleep(0.9)
        assert use.prefill() == (0, 50)
        await asyncio.sleep(0.2)
        assert use.prefill() == (0, 0)

    run(scenario())


@pytest.mark.parametrize("ends", ["evicted", "forgotten"])
def test_the_prompt_of_a_ghost_that_never_ran_is_never_read(ends: str) -> None:
    async def scenario() -> None:
        use = ShadowInUse(places=1, prefill_limit=100, e=9)
        first = use.admit("a", prompt_tokens=60)
        waits, would_be_shed = use.admit("b", prompt_tokens=50), use.admit("c", prompt_tokens=50)
        for permit in (waits, would_be_shed):
            permit.first_byte()
            permit.complete()
        if ends == "forgotten":
            use.gate.wind_up()
        else:
            await asyncio.sleep(61)
        assert use.prefill() == (60, 60)
        first.complete()
        assert use.prefill() == (0, 0)

    run(scenario())

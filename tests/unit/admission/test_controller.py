from __future__ import annotations

import asyncio
import random
import weakref
from weakref import WeakSet

import pytest

from proxy.admission.controller import AdmissionController
from proxy.admission.disciplines.priority import PriorityDiscipline
from proxy.admission.outcome import Evicted, Reason, Rejected
from proxy.admission.permit import Ending
from proxy.admission.request import AdmissionRequest
from proxy.admission.retry_budget import RetryBudget
from proxy.admission.snapshot import Demand
from proxy.admission.token_budget import TokenBudgets
from proxy.admission.waiter import Waiter
from tests.support.admission import (
    UPSTREAM,
    Desk,
    Holder,
    MovableLimit,
    RecordingObserver,
    one_upstream,
    turns,
)
from tests.support.virtual_time import now, run


def test_leaving_without_a_word_is_ignore() -> None:
    async def scenario() -> None:
        desk = Desk()
        async with desk.controller.admit(desk.request("a")) as permit:
            assert desk.in_flight == 1
        assert permit.ending is Ending.IGNORE
        assert desk.in_flight == 0

    run(scenario())


def test_a_word_said_inside_is_kept() -> None:
    async def scenario() -> None:
        desk = Desk()
        async with desk.controller.admit(desk.request("a")) as permit:
            permit.complete()
            assert desk.in_flight == 0
        assert desk.observer.log == ["admitted a", "released a complete"]

    run(scenario())


def test_an_error_inside_gives_the_seats_back_and_goes_on() -> None:
    async def scenario() -> None:
        desk = Desk()
        with pytest.raises(ZeroDivisionError):
            async with desk.controller.admit(desk.request("a")):
                raise ZeroDivisionError
        assert desk.in_flight == 0

    run(scenario())


def test_a_waiter_gets_the_permit_that_comes_free() -> None:
    async def scenario() -> None:
        desk = Desk()
        first, second = await desk.arrive("a"), await desk.arrive("b")
        assert second.permit is None
        first.finish()
        await turns()
        assert second.permit is not None
        assert second.permit.upstream == UPSTREAM
        await desk.close()

    run(scenario())


@pytest.mark.parametrize("seats", [0, -1])
def test_a_request_takes_at_least_one_seat(seats: int) -> None:
    async def scenario() -> None:
        desk = Desk()
        with pytest.raises(ValueError, match=f"not {seats}"):
            desk.controller.admit(AdmissionRequest(seats=seats, deadline=1.0))
        await desk.close()

    run(scenario())


def test_a_full_queue_raises_rejected() -> None:
    async def scenario() -> None:
        desk = Desk(max_queue_depth=0)
        await desk.arrive("a")
        with pytest.raises(Rejected) as caught:
            async with desk.controller.admit(desk.request("b")):
                pytest.fail("there was no seat")
        assert caught.value.reason is Reason.QUEUE_FULL
        await desk.close()

    run(scenario())


def test_a_deadline_raises_evicted_at_its_moment() -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.arrive("a")
        with pytest.raises(Evicted) as caught:
            async with desk.controller.admit(desk.request("b", wait_s=2.5)):
                pytest.fail("there was no seat")
        assert now() == 2.5
        assert caught.value.facts.time_in_queue_s == 2.5
        await desk.close()

    run(scenario())


def test_a_refused_request_holds_nothing() -> None:
    async def scenario() -> None:
        desk = Desk(max_queue_depth=1)
        await desk.arrive("a")
        for wait_s in (0.0, 1.0):
            with pytest.raises((Rejected, Evicted)):
                async with desk.controller.admit(desk.request("b", wait_s=wait_s)):
                    pytest.fail("there was no seat")
        assert desk.in_flight == 1
        assert desk.queue_depth == 0
        await desk.close()

    run(scenario())


def test_cancellation_of_a_waiter_goes_through() -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.arrive("a")
        waiter = await desk.arrive("b")
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter.task
        assert desk.observer.of("abandoned") == ["b"]
        await desk.close()

    run(scenario())


def test_a_timeout_around_admit_frees_the_place() -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.arrive("a")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), desk.controller.admit(desk.request("b")):
                pytest.fail("there was no seat")
        assert desk.queue_depth == 0
        assert desk.observer.of("abandoned") == ["b"]
        await desk.close()

    run(scenario())


def test_draining_reaches_those_who_wait() -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.arrive("a")
        waiter = await desk.arrive("b")
        desk.controller.drain()
        await turns()
        assert waiter.reason is Reason.DRAINING
        assert isinstance(waiter.refusal, Evicted)
        assert desk.controller.snapshot().draining
        assert isinstance((await desk.arrive("c")).refusal, Rejected)
        await desk.close()

    run(scenario())


def test_suspension_and_resumption_reach_the_upstream() -> None:
    async def scenario() -> None:
        desk = Desk()
        desk.controller.suspend(UPSTREAM, Reason.UPSTREAM_UNAVAILABLE)
        assert desk.controller.snapshot().upstreams[0].suspended
        assert (await desk.arrive("a")).reason is Reason.UPSTREAM_UNAVAILABLE
        desk.controller.resume(UPSTREAM)
        assert (await desk.arrive("b")).permit is not None
        await desk.close()

    run(scenario())


def test_a_raised_limit_lets_a_waiter_in() -> None:
    async def scenario() -> None:
        desk = Desk(limit=0)
        waiter = await desk.arrive("a")
        desk.limit.seats = 1
        desk.controller.limit_changed()
        await turns()
        assert waiter.permit is not None
        await desk.close()

    run(scenario())


def test_an_early_rejection_counts() -> None:
    async def scenario() -> None:
        desk = Desk(max_queue_depth=0)
        await desk.arrive("a")
        rejection = desk.controller.reject_early()
        assert rejection is not None
        assert desk.observer.of("rejected") == ["- queue_full"]
        await desk.close()

    run(scenario())


def test_in_shadow_mode_nobody_waits() -> None:
    async def scenario() -> None:
        desk = Desk(max_queue_depth=0, shadow=True)
        for name in "abc":
            assert (await desk.arrive(name)).permit is not None
        assert desk.in_flight == 3
        assert desk.observer.of("would_shed") == ["queue_full", "queue_full"]
        await desk.close()

    run(scenario())


def test_it_starts_empty() -> None:
    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        controller = AdmissionController(one_upstream(3), 7, clock, RecordingObserver())
        snapshot = controller.snapshot()
        assert (snapshot.in_flight, snapshot.limit) == (0, 3)
        assert (snapshot.queue_depth, snapshot.max_queue_depth) == (0, 7)
        assert not snapshot.draining

    run(scenario())


class TestUpstreamsThatComeAndGo:
    def test_one_that_comes_takes_those_who_wait(self) -> None:
        async def scenario() -> None:
            desk = Desk(limit=1)
            holders = [await desk.arrive(name) for name in "abc"]
            desk.controller.add_upstream("other", MovableLimit(2))
            await turns()
            assert [holder.permit.upstream for holder in holders if holder.permit] == [
                *(UPSTREAM, "other", "other")
            ]
            await desk.close()

        run(scenario())

    def test_one_that_goes_is_seen_until_its_last_seat_is_given_back_and_then_told_once(
        self,
    ) -> None:
        async def scenario() -> None:
            desk, empty = Desk(limit=2), []
            holders = [await desk.arrive(name) for name in "ab"]
            desk.controller.remove_upstream(UPSTREAM, lambda: empty.append(now()))
            assert (await desk.arrive("c")).reason is Reason.UPSTREAM_UNAVAILABLE
            assert [one.name for one in desk.controller.snapshot().upstreams] == [UPSTREAM]
            assert desk.controller.upstream(UPSTREAM).in_flight == 2
            for holder in holders:
                assert empty == []
                await asyncio.sleep(1)
                holder.finish()
                await turns()
            assert empty == [2.0]
            assert desk.controller.snapshot().upstreams == ()
            with pytest.raises(KeyError):
                desk.controller.upstream(UPSTREAM)
            await desk.close()
            assert empty == [2.0]

        run(scenario())

    def test_an_empty_one_is_gone_at_once(self) -> None:
        async def scenario() -> None:
            desk, empty = Desk(), []
            desk.controller.remove_upstream(UPSTREAM, lambda: empty.append(UPSTREAM))
            assert empty == [UPSTREAM]
            with pytest.raises(KeyError):
                desk.controller.remove_upstream(UPSTREAM)

        run(scenario())

    def test_one_that_comes_back_before_it_was_empty_counts_what_is_taken(self) -> None:
        async def scenario() -> None:
            desk, empty = Desk(limit=2), []
            first = await desk.arrive("a")
            desk.controller.remove_upstream(UPSTREAM, lambda: empty.append(UPSTREAM))
            desk.controller.add_upstream(UPSTREAM, MovableLimit(99))
            holders = [await desk.arrive(name) for name in "bc"]
            assert [holder.permit is not None for holder in holders] == [True, False]
            assert desk.controller.snapshot().limit == 2
            first.finish()
            await turns()
            assert holders[1].permit is not None
            await desk.close()
            assert empty == []

        run(scenario())

    def test_what_was_to_be_called_is_forgotten_when_it_comes_back(self) -> None:
        class Told:
            def __call__(self) -> None: ...

        async def scenario() -> None:
            desk, told = Desk(), Told()
            await desk.arrive("a")
            desk.controller.remove_upstream(UPSTREAM, told)
            desk.controller.add_upstream(UPSTREAM, MovableLimit(1))
            forgotten = weakref.ref(told)
            del told
            assert forgotten() is None
            await desk.close()

        run(scenario())

    def test_what_is_needed_of_one_is_told_whether_it_stays_leaves_or_is_gone(self) -> None:
        async def scenario() -> None:
            desk = Desk(limit=1)
            holder = await desk.arrive("a")
            await desk.arrive("b", seats=3)
            await asyncio.sleep(1)
            assert desk.controller.demand(UPSTREAM) == Demand(1, 3, 3, 1.0)
            desk.controller.remove_upstream(UPSTREAM)
            assert desk.controller.demand(UPSTREAM) == Demand(1, 0, 0, 0.0)
            holder.finish()
            await turns()
            assert desk.controller.demand(UPSTREAM) == Demand(0, 0, 0, 0.0)
            await desk.close()

        run(scenario())

    @pytest.mark.parametrize("shadow", [False, True])
    def test_in_front_of_none_there_is_no_place_to_wait(self, shadow: bool) -> None:
        async def scenario() -> None:
            clock = asyncio.get_running_loop().time
            controller = AdmissionController({}, 7, clock, RecordingObserver(), shadow=shadow)
            assert controller.snapshot().max_queue_depth == 0

        run(scenario())

    def test_one_may_come_suspended(self) -> None:
        async def scenario() -> None:
            desk = Desk()
            desk.controller.remove_upstream(UPSTREAM)
            desk.controller.add_upstream(
                "other", MovableLimit(1), suspended_for=Reason.UPSTREAM_STALLED
            )
            assert (await desk.arrive("a")).reason is Reason.UPSTREAM_STALLED
            desk.controller.resume("other")
            assert (await desk.arrive("b")).permit is not None
            await desk.close()

        run(scenario())

    def test_its_tokens_are_limited_too(self) -> None:
        async def scenario() -> None:
            desk = Desk()
            desk.controller.remove_upstream(UPSTREAM)
            budgets = TokenBudgets(kv_limit=10)
            desk.controller.add_upstream("other", MovableLimit(9), budgets)
            for kv_tokens in (6, 6):
                request = AdmissionRequest(1, now() + 5, kv_tokens=kv_tokens)
                desk.holders.append(Holder(desk.controller, request))
                await turns()
            assert [holder.permit is not None for holder in desk.holders] == [True, False]
            await desk.close()

        run(scenario())

    def test_the_places_go_by_the_number_of_upstreams(self) -> None:
        async def scenario() -> None:
            desk = Desk(max_queue_depth=lambda upstreams: 3 * upstreams)
            places = [desk.controller.snapshot().max_queue_depth]
            desk.controller.add_upstream("other", MovableLimit(1))
            places.append(desk.controller.snapshot().max_queue_depth)
            desk.controller.remove_upstream("other")
            desk.controller.remove_upstream(UPSTREAM)
            places.append(desk.controller.snapshot().max_queue_depth)
            assert places == [3, 6, 0]

        run(scenario())

    def test_one_that_is_there_cannot_come_again(self) -> None:
        async def scenario() -> None:
            desk = Desk()
            with pytest.raises(ValueError, match="already"):
                desk.controller.add_upstream(UPSTREAM, MovableLimit(1))

        run(scenario())


def two_models(desk: Desk) -> None:
    """`engine` serves m1, `other` m2; a seat each."""
    desk.controller.add_upstream("other", MovableLimit(1))
    desk.controller.serves(UPSTREAM, frozenset({"m1"}))
    desk.controller.serves("other", frozenset({"m2"}))


class TestSeveralModels:
    def test_requests_go_where_their_model_is(self) -> None:
        async def scenario() -> None:
            desk = Desk()
            two_models(desk)
            holder = await desk.arrive("a", model="m2")
            assert holder.permit is not None
            assert holder.permit.upstream == "other"
            assert (await desk.arrive("b", model="m2")).permit is None
            assert (await desk.arrive("c", model="m1")).permit is not None
            assert desk.queue_depth == 1
            await desk.close()

        run(scenario())

    def test_seats_come_free_for_those_who_wait_there_whoever_granted_them(self) -> None:
        async def scenario() -> None:
            desk = Desk()
            desk.controller.add_upstream("other", MovableLimit(1))
            first, second = await desk.arrive("a"), await desk.arrive("b")
            desk.controller.serves(UPSTREAM, frozenset({"m1"}))
            desk.controller.serves("other", frozenset({"m2"}))
            waiter = await desk.arrive("c", model="m2")
            for holder in (first, second):
                holder.finish()
            await turns()
            assert waiter.permit is not None
            assert waiter.permit.upstream == "other"
            await desk.close()

        run(scenario())

    def test_one_that_goes_and_comes_back_is_found_by_its_model(self) -> None:
        async def scenario() -> None:
            desk = Desk()
            two_models(desk)
            desk.controller.remove_upstream("other")
            desk.controller.add_upstream("other", MovableLimit(1), models=frozenset({"m2"}))
            await desk.arrive("a", model="m1")
            waiter = await desk.arrive("b", model="m1")
            assert waiter.permit is None
            holder = await desk.arrive("c", model="m2")
            assert holder.permit is not None
            await desk.close()

        run(scenario())

    def test_one_that_comes_back_before_it_was_empty_serves_what_it_did(self) -> None:
        async def scenario() -> None:
            desk = Desk()
            two_models(desk)
            await desk.arrive("a", model="m2")
            desk.controller.remove_upstream("other")
            desk.controller.add_upstream("other", MovableLimit(1))
            waiter = await desk.arrive("b", model="m2")
            assert waiter.permit is None
            assert desk.controller.demand("other").waiting == 1
            assert desk.controller.demand(UPSTREAM).waiting == 0
            await desk.close()

        run(scenario())

    def test_early_nobody_is_turned_away_who_finds_a_place_though_the_least_loaded_is_full(
        self,
    ) -> None:
        async def scenario() -> None:
            desk = Desk(limit=10, max_queue_depth=4)
            two_models(desk)
            for model in [*["m1"] * 12, *["m2"] * 2]:
                await desk.arrive("x", model=model)
            assert desk.queue_depth == 3
            assert desk.controller.reject_early(longest_wait_s=5.0) is None
            assert desk.controller.reject_early(longest_wait_s=0.0) is not None
            await desk.close()

        run(scenario())

    def test_early_one_seat_is_asked_for_and_no_more(self) -> None:
        async def scenario() -> None:
            desk = Desk(limit=10, max_queue_depth=0)
            desk.controller = AdmissionController(
                {UPSTREAM: MovableLimit(10)},
                0,
                desk.loop.time,
                desk.observer,
                lambda: PriorityDiscipline(desk.loop.time, tenant_max_in_flight=2),
            )
            desk.controller.add_upstream("other", MovableLimit(2))
            desk.controller.serves(UPSTREAM, frozenset({"m1"}))
            desk.controller.serves("other", frozenset({"m2"}))
            for model in ("m1", "m1", "m2"):
                await desk.arrive("", model=model)
            assert desk.controller.reject_early() is None, "there is one for it at m2"
            await desk.arrive("", model="m2")
            assert desk.controller.reject_early() is not None
            assert desk.controller.reject_early(tenant="x") is None
            await desk.close()

        run(scenario())

    def test_early_only_who_would_be_turned_away_from_every_queue_is(self) -> None:
        async def scenario() -> None:
            desk = Desk(max_queue_depth=2)
            two_models(desk)
            for model in ("m1", "m1", "m2"):
                await desk.arrive("x", model=model)
            assert desk.controller.reject_early() is None
            await desk.arrive("x", model="m2")
            rejection = desk.controller.reject_early()
            assert rejection is not None
            assert rejection.reason is Reason.QUEUE_FULL
            assert desk.observer.of("rejected") == ["- queue_full"]
            await desk.close()

        run(scenario())

    def test_early_the_reason_is_that_of_a_queue_that_is_open(self) -> None:
        async def scenario() -> None:
            desk = Desk(max_queue_depth=0)
            two_models(desk)
            await desk.arrive("x", model="m2")
            desk.controller.suspend(UPSTREAM, Reason.UPSTREAM_STALLED)
            rejection = desk.controller.reject_early()
            assert rejection is not None
            assert rejection.reason is Reason.QUEUE_FULL
            await desk.close()

        run(scenario())

    def test_a_queue_that_comes_into_being_while_all_drains_is_closed(self) -> None:
        async def scenario() -> None:
            desk = Desk()
            desk.controller.add_upstream("other", MovableLimit(1))
            desk.controller.drain()
            desk.controller.serves(UPSTREAM, frozenset({"m1"}))
            desk.controller.serves("other", frozenset({"m2"}))
            for model in ("m1", "m2", None):
                assert (await desk.arrive("a", model=model)).reason is Reason.DRAINING
            assert desk.controller.snapshot().draining
            await desk.close()

        run(scenario())

    def test_one_queue_again_counts_as_one(self) -> None:
        async def scenario() -> None:
            desk = Desk()
            two_models(desk)
            desk.controller.serves("other", frozenset({"m1"}))
            holders = [await desk.arrive(name, model="m1") for name in "abc"]
            assert [holder.permit is not None for holder in holders] == [True, True, False]
            assert desk.controller.snapshot().queue_depth == 1
            await desk.close()

        run(scenario())

    def test_others_can_replace_one_that_is_gone(self) -> None:
        async def scenario() -> None:
            desk = Desk()
            assert not desk.controller.is_replaceable(UPSTREAM)
            assert desk.controller.is_replaceable("one that was removed")
            two_models(desk)
            assert not desk.controller.is_replaceable(UPSTREAM)
            desk.controller.serves("other", frozenset({"m1", "m2"}))
            assert desk.controller.is_replaceable(UPSTREAM)
            assert not desk.controller.is_replaceable("other")

        run(scenario())

    def test_a_drain_that_is_taken_back_is_over_in_every_queue_and_in_those_to_come(self) -> None:
        async def scenario() -> None:
            desk = Desk()
            two_models(desk)
            desk.controller.drain()
            desk.controller.undrain()
            assert not desk.controller.snapshot().draining
            desk.controller.add_upstream("third", MovableLimit(1), models=frozenset({"m3"}))
            assert (await desk.arrive("a", model="m3")).permit is not None
            await desk.close()

        run(scenario())

    def test_tickets_are_drawn_from_one_budget(self) -> None:
        async def scenario() -> None:
            desk = Desk()
            two_models(desk)
            assert sum(desk.controller.invite_back() for _ in range(30)) == 10

        run(scenario())

    def test_queues_that_are_no_more_leave_nothing_behind(self) -> None:
        async def scenario() -> None:
            alive: WeakSet[PriorityDiscipline[Waiter]] = WeakSet()

            def new_discipline() -> PriorityDiscipline[Waiter]:
                made = PriorityDiscipline[Waiter](now)
                alive.add(made)
                return made

            controller = AdmissionController(
                one_upstream(1), 5, now, RecordingObserver(), new_discipline
            )
            controller.serves(UPSTREAM, frozenset({"m"}))
            for number in range(50):
                model = f"m{number}"
                controller.add_upstream("other", MovableLimit(1), models=frozenset({model}))
                request = AdmissionRequest(1, now() + 5, model=model)
                async with controller.admit(request) as permit:
                    controller.remove_upstream("other")
                    assert len(alive) == 2, "somebody still runs there"
                del permit
                assert len(alive) == 1
            assert len(controller.snapshot().upstreams) == 1

        run(scenario())


# Changes while requests run


def test_a_drain_that_is_taken_back_admits_again() -> None:
    async def scenario() -> None:
        desk = Desk()
        running = await desk.arrive("a")
        waiting = await desk.arrive("b")
        desk.controller.drain()
        await turns()
        assert waiting.reason is Reason.DRAINING
        assert (await desk.arrive("c")).reason is Reason.DRAINING
        desk.controller.undrain()
        assert not desk.controller.snapshot().draining
        later = await desk.arrive("d")
        assert later.refusal is None
        running.finish()
        await turns()
        assert later.permit is not None
        await desk.close()

    run(scenario())


def test_after_a_drain_an_engine_that_went_down_meanwhile_is_down() -> None:
    async def scenario() -> None:
        desk = Desk()
        desk.controller.drain()
        desk.controller.suspend(UPSTREAM, Reason.UPSTREAM_STALLED)
        desk.controller.undrain()
        assert (await desk.arrive("a")).reason is Reason.UPSTREAM_STALLED
        desk.controller.resume(UPSTREAM)
        assert (await desk.arrive("b")).permit is not None
        await desk.close()

    run(scenario())


def test_a_mode_that_is_set_already_changes_nothing() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1)
        holders = [await desk.arrive(name) for name in "ab"]
        desk.controller.set_shadow(shadow=False)
        await turns()
        assert holders[1].permit is None
        assert desk.queue_depth == 1
        await desk.close()

    run(scenario())


def test_nobody_is_invited_back_where_that_is_switched_off() -> None:
    async def scenario() -> None:
        clock = asyncio.get_running_loop().time
        controller = AdmissionController(
            one_upstream(1), 0, clock, RecordingObserver(), retry_budget=RetryBudget(0)
        )
        assert not controller.invite_back()

    run(scenario())


def test_shadow_mode_lets_in_who_waits_and_drops_nobody() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1)
        holders = [await desk.arrive(name) for name in "abc"]
        desk.controller.set_shadow(shadow=True)
        await turns()
        assert all(holder.permit for holder in holders)
        assert desk.in_flight == 3
        assert (await desk.arrive("d")).permit is not None
        assert desk.observer.of("evicted") == []
        for holder in holders:
            holder.finish()
        await turns()
        assert desk.in_flight == 1
        await desk.close()

    run(scenario())


def test_when_shadow_mode_ends_what_runs_counts_and_newcomers_wait_for_it() -> None:
    async def scenario() -> None:
        desk = Desk(limit=1, shadow=True)
        first, second = await desk.arrive("a"), await desk.arrive("b")
        desk.controller.set_shadow(shadow=False)
        waiting = await desk.arrive("c")
        assert desk.in_flight == 2
        assert waiting.permit is None
        first.finish()
        await turns()
        assert waiting.permit is None, "the limit is 1, and one still runs"
        second.finish()
        await turns()
        assert waiting.permit is not None
        assert desk.observer.of("would_shed") == []
        await asyncio.sleep(10)  # past the deadlines of ghosts that waited
        assert desk.observer.of("would_shed") == []
        await desk.close()

    run(scenario())


def test_the_limits_of_tokens_hold_again_after_shadow_mode() -> None:
    async def scenario() -> None:
        loop, observer = asyncio.get_running_loop(), RecordingObserver()
        budgets = TokenBudgets(kv_limit=100)
        controller = AdmissionController(
            one_upstream(9), 5, loop.time, observer, token_budgets={UPSTREAM: budgets}
        )
        controller.set_shadow(shadow=True)
        request = AdmissionRequest(1, loop.time() + 5, kv_tokens=80)
        holders = [Holder(controller, request) for _ in range(2)]
        await turns()
        assert controller.upstream(UPSTREAM).kv_tokens == 160
        controller.set_shadow(shadow=False)
        assert controller.upstream(UPSTREAM).kv_tokens == 160
        third = Holder(controller, request)
        await turns()
        assert third.permit is None
        for holder in (*holders, third):
            holder.finish()
        await turns(10)
        assert third.permit is not None
        assert (budgets.kv.taken, controller.snapshot().in_flight) == (0, 0)

    run(scenario())


def test_a_gate_that_is_shut_stays_shut_through_a_change_of_mode() -> None:
    async def scenario() -> None:
        desk = Desk()
        desk.controller.suspend(UPSTREAM, Reason.UPSTREAM_UNAVAILABLE)
        for shadow in (True, False):
            desk.controller.set_shadow(shadow=shadow)
            assert (await desk.arrive("a")).reason is Reason.UPSTREAM_UNAVAILABLE
        desk.controller.drain()
        desk.controller.set_shadow(shadow=True)
        assert (await desk.arrive("b")).reason is Reason.DRAINING
        desk.controller.undrain()
        desk.controller.resume(UPSTREAM)
        assert (await desk.arrive("c")).permit is not None
        await desk.close()

    run(scenario())


@pytest.mark.parametrize("seed", range(20))
def test_whenever_the_mode_changes_every_seat_comes_back(seed: int) -> None:
    async def scenario() -> None:
        dice = random.Random(seed)
        desk = Desk(limit=3, max_queue_depth=4)
        for step in range(60):
            match dice.randrange(6):
                case 0:
                    desk.controller.set_shadow(shadow=dice.random() < 0.5)
                case 1 | 2:
                    await desk.arrive(f"r{step}", seats=dice.randint(1, 4), wait_s=dice.random())
                case 3 if desk.holders:
                    dice.choice(desk.holders).finish()
                case 4 if desk.holders:
                    dice.choice(desk.holders).cancel()
                case _:
                    await asyncio.sleep(dice.random() / 2)
        await desk.close()
        desk.controller.set_shadow(shadow=False)
        assert (await desk.arrive("last", seats=3)).permit is not None
        await desk.close()

    run(scenario())


def test_places_follow_a_function_that_has_another_answer() -> None:
    async def scenario() -> None:
        places = 1
        desk = Desk(max_queue_depth=lambda _: places)
        holders = [await desk.arrive(name) for name in "ab"]
        places = 0
        desk.controller.places_changed()
        assert desk.controller.snapshot().max_queue_depth == 0
        assert (await desk.arrive("c")).reason is Reason.QUEUE_FULL
        holders[0].finish()
        await turns()
        assert holders[1].permit is not None, "who waits keeps his place"
        await desk.close()

    run(scenario())

from __future__ import annotations

import asyncio

import pytest

from proxy.admission.controller import AdmissionController
from proxy.admission.outcome import Evicted, Reason, Rejected
from proxy.admission.permit import Ending
from tests.support.admission import UPSTREAM, Desk, RecordingObserver, one_upstream, turns
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

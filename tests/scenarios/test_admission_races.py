"""The races that proxies and semaphores keep losing, on every event loop that Sluice may run on.

Each ends with a capacity probe: exactly as many seats as before, and nobody left in the queue.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import TYPE_CHECKING

import pytest
import uvloop

from proxy.admission.outcome import Evicted, Reason
from tests.support.admission import Desk, Holder, turns, until
from tests.support.virtual_time import VirtualTimeLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Run = Callable[[Coroutine[None, None, None]], None]

# Long enough for a loaded machine to reach the awaited moment with its tasks in place.
SHORT_S = 0.05


@pytest.fixture(params=[VirtualTimeLoop, asyncio.new_event_loop, uvloop.new_event_loop])
def run(request: pytest.FixtureRequest) -> Run:
    def run_on_loop(scenario: Coroutine[None, None, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(scenario)

    return run_on_loop


async def check_capacity(desk: Desk) -> None:
    """All seats can be taken, and not one more. Nobody may hold any when this is called."""
    assert desk.in_flight == 0
    assert desk.queue_depth == 0
    probes = [await desk.arrive(f"probe {seat}") for seat in range(desk.limit.seats)]
    assert all(probe.permit is not None for probe in probes)
    surplus = await desk.arrive("surplus")
    assert surplus.permit is None
    await desk.close()


async def finish(*holders: Holder) -> None:
    for holder in holders:
        holder.finish()
    await asyncio.gather(*(holder.task for holder in holders), return_exceptions=True)


def test_a_wake_up_is_not_lost_when_the_woken_waiter_is_cancelled(run: Run) -> None:
    async def scenario() -> None:
        desk = Desk(limit=1)
        holder, woken, heir = [await desk.arrive(name) for name in "abc"]
        assert holder.permit is not None
        holder.permit.complete()
        woken.cancel()  # in the very step of its grant
        await turns()
        assert heir.permit is not None
        assert desk.observer.log == [
            "admitted a",
            "released a complete",
            "admitted b",
            "released b ignore",
            "admitted c",
        ]
        await finish(holder, heir)
        await check_capacity(desk)

    run(scenario())


def test_a_release_passes_over_a_waiter_cancelled_in_the_same_step(run: Run) -> None:
    async def scenario() -> None:
        desk = Desk(limit=1)
        holder, gone, heir = [await desk.arrive(name) for name in "abc"]
        gone.cancel()
        assert holder.permit is not None
        holder.permit.complete()
        await turns()
        assert heir.permit is not None
        assert desk.observer.of("admitted") == ["a", "c"]
        assert desk.observer.of("abandoned") == ["b"]
        await finish(holder, heir)
        await check_capacity(desk)

    run(scenario())


def test_a_release_after_a_timeout_goes_to_the_next(run: Run) -> None:
    async def scenario() -> None:
        desk = Desk(limit=1)
        holder = await desk.arrive("a")
        late = await desk.arrive("b", wait_s=SHORT_S)
        heir = await desk.arrive("c")
        assert holder.permit is not None
        # The timer of `b` runs first, and before its task does, the seat comes back.
        desk.loop.call_at(desk.loop.time() + 2 * SHORT_S, holder.permit.complete)
        await asyncio.wait([late.task])
        assert isinstance(late.refusal, Evicted)
        await until(lambda: heir.permit is not None)
        await finish(holder, heir)
        await check_capacity(desk)

    run(scenario())


@pytest.mark.parametrize("order", list(itertools.permutations(["time out", "release", "cancel"])))
def test_timeout_release_and_cancel_at_once_have_one_outcome(
    run: Run, order: tuple[str, ...]
) -> None:
    async def scenario() -> None:
        desk = Desk(limit=1)
        holder = await desk.arrive("a")
        moment = desk.loop.time() + SHORT_S
        # Less apart than a loop's clock can tell, so that all three are due in one turn.
        offset_s = {event: 1e-10 * place for place, event in enumerate(order)}
        contested = await desk.arrive("b", wait_s=SHORT_S + offset_s["time out"])
        heir = await desk.arrive("c")
        assert holder.permit is not None
        desk.loop.call_at(moment + offset_s["release"], holder.permit.complete)
        desk.loop.call_at(moment + offset_s["cancel"], contested.cancel)
        await asyncio.wait([contested.task])
        await until(lambda: heir.permit is not None)
        outcomes = [
            line
            for line in desk.observer.log
            if line in ("admitted b", "evicted b queue_timeout", "abandoned b")
        ]
        assert len(outcomes) == 1
        await finish(holder, heir)
        await check_capacity(desk)

    run(scenario())


def test_a_newcomer_does_not_slip_in_between_grant_and_resume(run: Run) -> None:
    async def scenario() -> None:
        desk = Desk(limit=1)
        holder, head = [await desk.arrive(name) for name in "ab"]
        newcomer = Holder(desk.controller, desk.request("c"))  # its task runs before the head's
        assert holder.permit is not None
        holder.permit.complete()
        await turns()
        assert head.permit is not None
        assert newcomer.permit is None
        await finish(holder, head)
        await finish(newcomer)
        await check_capacity(desk)

    run(scenario())


def test_a_dead_head_does_not_keep_a_live_arrival_out_of_a_queue_of_one(run: Run) -> None:
    async def scenario() -> None:
        desk = Desk(limit=1, max_queue_depth=1)
        holder, dead = [await desk.arrive(name) for name in "ab"]
        dead.cancel()
        assert desk.controller.reject_early() is None
        arrival = await desk.arrive("c")
        assert arrival.refusal is None
        await finish(holder)
        await finish(arrival)
        assert arrival.permit is not None
        await check_capacity(desk)

    run(scenario())


def test_whoever_is_evicted_and_cancelled_in_one_step_is_counted_once(run: Run) -> None:
    async def scenario() -> None:
        desk = Desk(limit=1)
        holder, waiter = [await desk.arrive(name) for name in "ab"]
        desk.controller.drain()
        waiter.cancel()
        await asyncio.wait([waiter.task])
        assert waiter.task.cancelled()
        assert desk.observer.log == ["admitted a", f"evicted b {Reason.DRAINING}"]
        await finish(holder)
        assert desk.in_flight == 0

    run(scenario())


def test_a_thousand_arriving_together_get_seats_and_places_and_not_one_more(run: Run) -> None:
    async def scenario() -> None:
        desk = Desk(limit=2, max_queue_depth=4)
        crowd = [Holder(desk.controller, desk.request(str(n))) for n in range(1000)]
        await turns()
        assert sum(one.permit is not None for one in crowd) == 2
        assert desk.queue_depth == 4
        assert sum(one.reason is Reason.QUEUE_FULL for one in crowd) == 994
        await finish(*crowd)
        assert len(desk.observer.of("admitted")) == 6
        await check_capacity(desk)

    run(scenario())


def test_a_storm_of_cancels_while_seats_go_round_loses_nobody(run: Run) -> None:
    async def scenario() -> None:
        rng = random.Random(11)
        for _ in range(20):
            desk = Desk(limit=2, max_queue_depth=200)
            crowd = [Holder(desk.controller, desk.request(str(n), wait_s=60)) for n in range(100)]
            await turns()
            for holder in rng.sample(crowd, len(crowd)):
                if rng.random() < 0.5:
                    holder.cancel()
                else:
                    holder.finish()
                if rng.random() < 0.2:
                    await asyncio.sleep(0)
            await asyncio.wait([holder.task for holder in crowd])
            for holder in crowd:
                assert holder.task.cancelled() or holder.permit is not None
            outcomes = desk.observer.of("admitted") + desk.observer.of("abandoned")
            assert sorted(outcomes) == sorted(str(n) for n in range(100))
            await check_capacity(desk)

    run(scenario())

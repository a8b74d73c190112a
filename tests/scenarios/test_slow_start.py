"""After a recovery the seats open over ten seconds, to whoever waits for them."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from proxy.admission.limits.aimd import AimdLimit
from proxy.admission.limits.fixed import FixedLimit
from proxy.admission.limits.slow_start import SlowStart
from proxy.admission.outcome import Reason
from proxy.simulator.faults import Die
from proxy.simulator.step_cost import StepCost
from tests.support.engine_load import Work, loaded
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from proxy.vllm.poller import EngineStatus
    from tests.support.engine_load import Stand

SEATS = 40
ENGINE = {"max_num_seqs": 64, "cost": StepCost(base_s=0.05), "kv_cache_tokens": 200_000}
LONG = Work(prompt=20, shortest=600, longest=800)  # half a minute and more
POLLED_WITHIN_S = 1.0


def follow(stand: Stand, limit: SlowStart) -> None:
    """Wires it as the application does: a recovery begins it, every poll opens what is due."""
    was_refusing = False

    def before_change(status: EngineStatus) -> None:
        nonlocal was_refusing
        if was_refusing and not status.refuses:
            limit.begin(now())
        was_refusing = status.refuses

    stand.before_change.append(before_change)
    stand.on_reading.append(lambda _status: limit.advance(now()))


async def fall_and_come_back(stand: Stand) -> None:
    """The engine dies, is seen to be down, and is up again; half a second after it was seen."""
    stand.engine.inject(Die())
    await asyncio.sleep(3)
    assert set(stand.refused) == {Reason.UPSTREAM_UNAVAILABLE}
    await stand.restart_engine()
    while stand.poller.status.up is False:
        await asyncio.sleep(0.05)


async def in_flight_each_second(stand: Stand, seconds: int) -> list[int]:
    seen = []
    for _ in range(seconds):
        seen.append(stand.in_flight)
        await asyncio.sleep(1)
    return seen


def test_the_first_engine_is_not_held_back() -> None:
    async def scenario() -> None:
        limit = SlowStart(FixedLimit(SEATS))
        async with loaded(limit, **ENGINE) as stand:
            follow(stand, limit)
            stand.add_clients(100, LONG)
            await asyncio.sleep(1.5)
            assert stand.in_flight == SEATS

    run(scenario())


def test_an_engine_that_comes_back_meets_those_who_waited_one_after_the_other() -> None:
    async def scenario() -> None:
        limit = SlowStart(FixedLimit(SEATS))
        async with loaded(limit, **ENGINE) as stand:
            follow(stand, limit)
            stand.add_clients(200, LONG)
            await asyncio.sleep(5)
            await fall_and_come_back(stand)
            # Until all clients have tried again; and not at the instants of the polls.
            await asyncio.sleep(2.5 * POLLED_WITHIN_S)
            began = limit.seats
            assert SEATS // 10 <= began <= SEATS // 2
            seen = await in_flight_each_second(stand, 11)
            assert seen == sorted(seen)
            steps = [after - before for before, after in itertools.pairwise(seen)]
            assert max(steps) <= SEATS * 0.09 + 1
            assert seen[-1] == SEATS

    run(scenario())


def test_without_it_all_seats_are_taken_at_once() -> None:
    """What the others are to be seen against."""

    async def scenario() -> None:
        async with loaded(FixedLimit(SEATS), **ENGINE) as stand:
            stand.add_clients(200, LONG)
            await asyncio.sleep(5)
            await fall_and_come_back(stand)
            await asyncio.sleep(2 * POLLED_WITHIN_S)
            assert stand.in_flight == SEATS

    run(scenario())


def test_an_engine_that_falls_again_while_it_opens_begins_anew() -> None:
    async def scenario() -> None:
        limit = SlowStart(FixedLimit(SEATS))
        async with loaded(limit, **ENGINE) as stand:
            follow(stand, limit)
            stand.add_clients(200, LONG)
            await asyncio.sleep(5)
            await fall_and_come_back(stand)
            await asyncio.sleep(6)
            assert limit.seats > SEATS / 2
            await fall_and_come_back(stand)
            assert limit.seats == SEATS // 10
            await asyncio.sleep(12)
            assert stand.in_flight == SEATS

    run(scenario())


def test_it_opens_to_where_the_adaptive_limit_is() -> None:
    async def scenario() -> None:
        adaptive = AimdLimit(200, start=SEATS)
        limit = SlowStart(adaptive)
        async with loaded(limit, **ENGINE) as stand:
            follow(stand, limit)
            stand.add_clients(200, LONG)
            await asyncio.sleep(5)
            await fall_and_come_back(stand)
            assert limit.seats == SEATS // 10
            await asyncio.sleep(12)
            assert limit.seats == adaptive.seats == stand.in_flight == SEATS

    run(scenario())

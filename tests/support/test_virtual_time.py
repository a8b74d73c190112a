from __future__ import annotations

import asyncio

import pytest

from tests.support.virtual_time import (
    DeadlockError,
    LeftoverTasksError,
    UnhandledError,
    now,
    run,
    settle,
)


def test_an_hour_passes_without_waiting() -> None:
    async def scenario() -> float:
        await asyncio.sleep(3600)
        return now()

    assert run(scenario()) == 3600


def test_timers_fire_in_order_at_their_exact_times() -> None:
    seen: list[float] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        for delay in (3.0, 0.25, 2.0):
            loop.call_later(delay, lambda: seen.append(now()))
        await asyncio.sleep(10)

    run(scenario())
    assert seen == [0.25, 2.0, 3.0]


def test_waiting_for_nothing_is_a_deadlock_that_names_who_waits() -> None:
    async def stuck() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match=r"Event\.wait"):
        run(stuck())


def test_a_task_left_over_is_reported() -> None:
    async def scenario() -> None:
        background = asyncio.create_task(asyncio.sleep(5), name="poller")
        await asyncio.sleep(1)
        assert not background.done()

    with pytest.raises(LeftoverTasksError, match="poller"):
        run(scenario())


def test_a_task_cancelled_at_the_end_is_not_left_over() -> None:
    async def scenario() -> None:
        asyncio.create_task(asyncio.sleep(5)).cancel()

    run(scenario())


def test_a_failing_callback_fails_the_run() -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)

    with pytest.raises(UnhandledError):
        run(scenario())


def test_settling_lets_everything_run_without_time_passing() -> None:
    async def chain(length: int) -> int:
        for _ in range(length):
            await asyncio.sleep(0)
        return length

    async def scenario() -> None:
        task = asyncio.create_task(chain(50))
        asyncio.get_running_loop().call_later(1, lambda: None)
        await settle()
        assert task.done()
        assert now() == 0

    run(scenario())


def test_executor_jobs_run_inline() -> None:
    async def scenario() -> int:
        return await asyncio.to_thread(sum, [1, 2, 3])

    assert run(scenario()) == 6


def test_call_soon_threadsafe_wakes_the_loop() -> None:
    async def scenario() -> None:
        event = asyncio.Event()
        asyncio.get_running_loop().call_soon_threadsafe(event.set)
        await event.wait()

    run(scenario())

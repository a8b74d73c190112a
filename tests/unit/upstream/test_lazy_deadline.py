from __future__ import annotations

import asyncio
from math import inf

from proxy.upstream.late_expiry import GRACE_S
from proxy.upstream.lazy_deadline import LazyDeadline
from tests.support.virtual_time import after_timers, hold_up, now, run


class Watched:
    """A deadline and the moments at which it expired."""

    def __init__(self, horizon_s: float = 10.0) -> None:
        self.expired_at: list[float] = []
        self.deadline = LazyDeadline(
            asyncio.get_running_loop(), horizon_s, lambda: self.expired_at.append(now())
        )


def timers() -> int:
    """Those that the loop will still look at."""
    scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    return sum(not timer.cancelled() for timer in scheduled)


def test_it_expires_once_at_the_moment_that_was_set() -> None:
    async def scenario() -> None:
        watched = Watched()
        watched.deadline.set(7.5)
        await asyncio.sleep(100)
        assert watched.expired_at == [7.5]
        assert timers() == 0

    run(scenario())


def test_a_deadline_beyond_the_horizon_is_kept_too() -> None:
    async def scenario() -> None:
        watched = Watched(horizon_s=1)
        watched.deadline.set(7.25)
        await asyncio.sleep(100)
        assert watched.expired_at == [7.25]

    run(scenario())


def test_a_deadline_that_moves_on_needs_no_new_timer() -> None:
    async def scenario() -> None:
        watched = Watched(horizon_s=5)
        watched.deadline.set(5)
        timer = watched.deadline._timer
        for _ in range(4):
            await asyncio.sleep(1)
            watched.deadline.set(now() + 5)
            assert watched.deadline._timer is timer
        await asyncio.sleep(100)
        assert watched.expired_at == [9]

    run(scenario())


def test_a_deadline_that_moves_forward_is_kept() -> None:
    async def scenario() -> None:
        watched = Watched()
        watched.deadline.set(9)
        watched.deadline.set(2)
        await asyncio.sleep(3)
        assert watched.expired_at == [2]
        watched.deadline.set(4)
        await asyncio.sleep(3)
        assert watched.expired_at == [2, 4]

    run(scenario())


def test_no_deadline_lets_the_timer_run_out() -> None:
    async def scenario() -> None:
        watched = Watched()
        watched.deadline.set(3)
        watched.deadline.set(inf)
        await asyncio.sleep(20)
        assert watched.expired_at == []
        assert timers() == 0

    run(scenario())


def test_a_deadline_may_be_set_again_when_it_expires() -> None:
    async def scenario() -> None:
        watched = Watched()
        deadline = watched.deadline
        deadline._on_expired = lambda: (watched.expired_at.append(now()), deadline.set(now() + 2))  # type: ignore[assignment]
        deadline.set(1)
        await asyncio.sleep(6)
        assert watched.expired_at == [1, 3, 5]
        deadline.close()

    run(scenario())


def test_a_closed_deadline_leaves_no_timer_and_takes_no_other() -> None:
    async def scenario() -> None:
        watched = Watched()
        watched.deadline.set(3)
        watched.deadline.close()
        assert timers() == 0
        watched.deadline.set(4)
        assert timers() == 0
        await asyncio.sleep(10)
        assert watched.expired_at == []

    run(scenario())


def test_what_came_while_the_loop_was_held_up_moves_the_deadline_on() -> None:
    async def scenario() -> None:
        watched = Watched()
        watched.deadline.set(5)

        def held_up() -> None:
            hold_up(4)
            after_timers(watched.deadline.set, 13)

        asyncio.get_running_loop().call_at(4, held_up)
        await asyncio.sleep(100)
        assert watched.expired_at == [13]
        assert timers() == 0

    run(scenario())


def test_a_loop_that_is_late_again_and_again_has_deadlines_too() -> None:
    async def scenario() -> None:
        watched = Watched()
        watched.deadline.set(5)
        loop = asyncio.get_running_loop()
        loop.call_at(4, hold_up, 4)
        loop.call_at(8 + GRACE_S / 2, hold_up, 4)
        await asyncio.sleep(100)
        assert watched.expired_at == [12 + GRACE_S / 2]

    run(scenario())

from __future__ import annotations

import asyncio

import pytest

from proxy.upstream.late_expiry import GRACE_S, time_limit
from tests.support.virtual_time import after_timers, hold_up, now, run


def test_it_expires_at_its_moment() -> None:
    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with time_limit(5) as limit:
                await asyncio.sleep(100)
        assert (now(), limit.expired()) == (5, True)

    run(scenario())


def test_what_ends_in_time_leaves_no_timer() -> None:
    async def scenario() -> None:
        async with time_limit(5):
            await asyncio.sleep(4)
        await asyncio.sleep(100)

    run(scenario())


def test_one_that_is_over_before_it_begins_expires_at_once() -> None:
    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            async with time_limit(-3):
                await asyncio.sleep(100)
        assert now() == 0

    run(scenario())


def held_up_from_4_to_8(came: asyncio.Future[str] | None = None) -> None:
    """What came meanwhile is read when the loop goes on."""
    hold_up(4)
    if came is not None:
        after_timers(came.set_result, "in time")


def test_what_came_in_time_is_read_first_where_the_loop_was_held_up() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        came: asyncio.Future[str] = loop.create_future()
        loop.call_at(4, held_up_from_4_to_8, came)
        async with time_limit(5):
            assert await came == "in time"
        assert now() == 8

    run(scenario())


def test_what_did_not_come_is_missing_all_the_same_a_little_later() -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().call_at(4, held_up_from_4_to_8)
        with pytest.raises(TimeoutError):
            async with time_limit(5):
                await asyncio.sleep(100)
        assert now() == 8 + GRACE_S

    run(scenario())


def test_a_loop_that_is_late_again_has_limits_too() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        loop.call_at(4, held_up_from_4_to_8)
        loop.call_at(8 + GRACE_S / 2, hold_up, 4)
        with pytest.raises(TimeoutError):
            async with time_limit(5):
                await asyncio.sleep(100)
        assert now() == 12 + GRACE_S / 2

    run(scenario())

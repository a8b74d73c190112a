from __future__ import annotations

import asyncio

import pytest

from proxy.edge.light_event import LightEvent
from tests.support.virtual_time import run, settle


def test_who_waits_goes_on_when_it_is_set_even_if_it_is_cleared_at_once() -> None:
    async def scenario() -> None:
        event = LightEvent()
        waiting = [asyncio.create_task(event.wait()) for _ in range(2)]
        await settle()
        assert not any(task.done() for task in waiting)
        event.set()
        event.clear()
        assert await asyncio.gather(*waiting) == [True, True]
        assert not event.is_set()

    run(scenario())


def test_nobody_waits_for_what_is_set() -> None:
    async def scenario() -> None:
        event = LightEvent(is_set=True)
        assert event.is_set()
        assert await event.wait()

    run(scenario())


def test_who_stops_waiting_is_forgotten() -> None:
    async def scenario() -> None:
        event = LightEvent()
        waiting = asyncio.create_task(event.wait())
        await settle()
        assert "waiting=1" in repr(event)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert "waiting=0" in repr(event)
        event.set()

    run(scenario())


def test_one_that_is_cancelled_as_it_is_set_does_not_stop_the_others() -> None:
    async def scenario() -> None:
        event = LightEvent()
        cancelled, waiting = (asyncio.create_task(event.wait()) for _ in range(2))
        await settle()
        cancelled.cancel()
        event.set()
        assert await waiting
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    run(scenario())

from __future__ import annotations

import asyncio

import pytest

from proxy.edge.client_watch import ClientWatch, Interrupted, Interruption, LateListeners
from proxy.edge.drain import Drain
from tests.support.client_messages import ClientMessages
from tests.support.virtual_time import now, run, settle


class Running:
    """A request of so many seconds that a drain knows about."""

    def __init__(self, drain: Drain, for_s: float) -> None:
        self.task = asyncio.create_task(self._run(drain, for_s))

    async def _run(self, drain: Drain, for_s: float) -> Interruption | None:
        try:
            async with ClientWatch(
                ClientMessages().receive, LateListeners(asyncio.get_running_loop())
            ) as watch:
                drain.enter(watch)
                try:
                    watch.body_received()
                    await asyncio.sleep(for_s)
                finally:
                    drain.leave(watch)
        except Interrupted as interrupted:
            return interrupted.interruption
        return None


def test_with_nothing_running_a_drain_is_over_at_once() -> None:
    async def scenario() -> None:
        drain = Drain()
        assert not drain.begun
        drain.begin()
        assert drain.begun
        assert await drain.finish(30) == 0
        assert now() == 0

    run(scenario())


def test_a_drain_is_over_when_the_last_request_is() -> None:
    async def scenario() -> None:
        drain = Drain()
        requests = [Running(drain, seconds) for seconds in (1, 5, 3)]
        await settle()
        assert drain.running == 3
        drain.begin()
        assert await drain.finish(30) == 0
        assert now() == 5
        assert [await request.task for request in requests] == [None] * 3

    run(scenario())


def test_what_ended_before_the_drain_is_no_reason_to_think_that_all_has() -> None:
    async def scenario() -> None:
        drain = Drain()
        await Running(drain, 1).task
        assert drain.running == 0
        lasting = Running(drain, 4)
        await settle()
        drain.begin()
        assert await drain.finish(30) == 0
        assert now() == 5
        assert await lasting.task is None

    run(scenario())


def test_after_the_timeout_the_rest_is_broken_off_and_counted() -> None:
    async def scenario() -> None:
        drain = Drain()
        short, *long = [Running(drain, seconds) for seconds in (1, 100, 200)]
        await settle()
        drain.begin()
        assert await drain.finish(30) == 2
        assert now() == 30
        assert await short.task is None
        assert [await request.task for request in long] == [Interruption.DRAIN_ENDED] * 2
        assert drain.running == 0

    run(scenario())


def test_a_timeout_of_nothing_breaks_off_at_once() -> None:
    async def scenario() -> None:
        drain = Drain()
        request = Running(drain, 100)
        await settle()
        drain.begin()
        assert await drain.finish(0) == 1
        assert await request.task is Interruption.DRAIN_ENDED
        assert now() == 0

    run(scenario())


def test_a_request_that_comes_during_the_drain_is_waited_for_too() -> None:
    async def scenario() -> None:
        drain = Drain()
        requests = [Running(drain, 2)]
        await settle()
        drain.begin()
        asyncio.get_running_loop().call_at(1, lambda: requests.append(Running(drain, 4)))
        assert await drain.finish(30) == 0
        assert now() == 5
        assert await requests[1].task is None

    run(scenario())


@pytest.mark.parametrize("for_s", [50, 5000])
def test_a_request_that_comes_after_the_end_cannot_hold_the_process_up(for_s: float) -> None:
    """It would otherwise be waited for as long as the engine likes."""

    async def scenario() -> None:
        drain = Drain()
        requests = [Running(drain, 100)]
        await settle()
        drain.begin()
        loop = asyncio.get_running_loop()
        ending = asyncio.create_task(drain.finish(30))
        loop.call_at(30, lambda: requests.append(Running(drain, for_s)))
        await ending
        assert now() == 30
        late = Running(drain, for_s)
        assert await late.task is Interruption.DRAIN_ENDED
        assert await requests[1].task is Interruption.DRAIN_ENDED
        assert now() == 30

    run(scenario())


def test_a_pause_can_be_taken_back_and_is_not_the_end() -> None:
    drain = Drain()
    drain.pause()
    assert (drain.begun, drain.is_final, drain.is_over) == (True, False, False)
    assert drain.resume()
    assert not drain.begun


def test_what_ended_during_a_pause_does_not_end_a_later_drain() -> None:
    async def scenario() -> None:
        drain = Drain()
        drain.pause()
        early = Running(drain, 1)
        await early.task
        drain.resume()
        late = Running(drain, 5)
        await settle()
        drain.begin()
        assert await drain.finish(30) == 0
        assert now() == 6
        assert late.task.done()

    run(scenario())


def test_nothing_takes_back_the_end() -> None:
    drain = Drain()
    drain.pause()
    drain.begin()
    assert not drain.resume()
    assert drain.begun

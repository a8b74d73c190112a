from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.admission.account import Claim, Emptying
from proxy.admission.bypass import Bypass
from proxy.admission.outcome import Evicted, Load, Reason, RefusalFacts
from proxy.admission.permit import Ending, Permit
from proxy.admission.request import AdmissionRequest
from proxy.admission.waiter import Waiter
from tests.support.admission import turns
from tests.support.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = AdmissionRequest(seats=1, deadline=5.0)
EVICTION = Evicted(RefusalFacts(Reason.QUEUE_TIMEOUT, 1, Load(1, 1, 0, 1), 5.0, 1.0))


def new_waiter(left: Callable[[Waiter], None]) -> Waiter:
    return Waiter(asyncio.get_running_loop(), REQUEST, 1, 0.0, left)


def new_permit(endings: list[Ending]) -> Permit:
    return Permit(
        REQUEST,
        Claim("engine", 1),
        0.0,
        0.0,
        lambda _, ending: endings.append(ending),
        lambda _: None,
    )


def test_its_outcome_is_the_permit_or_the_eviction() -> None:
    async def scenario() -> None:
        for decided in (new_permit([]), EVICTION):
            waiter = new_waiter(pytest.fail)
            task = asyncio.create_task(waiter.outcome())
            await turns()
            waiter.set_result(decided)
            assert await task is decided

    run(scenario())


def test_a_cancelled_task_has_left_before_it_next_runs() -> None:
    left: list[Waiter] = []

    async def scenario() -> None:
        waiter = new_waiter(left.append)
        task = asyncio.create_task(waiter.outcome())
        await turns()
        task.cancel()
        assert left == [waiter]
        with pytest.raises(asyncio.CancelledError):
            await task
        assert left == [waiter]

    run(scenario())


def test_cancelled_between_grant_and_resume_it_gives_the_seats_on() -> None:
    endings: list[Ending] = []

    async def scenario() -> None:
        waiter = new_waiter(pytest.fail)
        task = asyncio.create_task(waiter.outcome())
        await turns()
        waiter.set_result(new_permit(endings))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert endings == [Ending.IGNORE]

    run(scenario())


def test_cancelled_between_eviction_and_resume_it_is_simply_cancelled() -> None:
    async def scenario() -> None:
        waiter = new_waiter(pytest.fail)
        task = asyncio.create_task(waiter.outcome())
        await turns()
        waiter.set_result(EVICTION)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(scenario())


def test_a_task_that_was_cancelled_before_it_waits_leaves_at_once() -> None:
    left: list[Waiter] = []

    async def cancelled_beforehand() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await new_waiter(left.append).outcome()

    async def scenario() -> None:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(cancelled_beforehand())
        assert len(left) == 1

    run(scenario())


def test_it_leaves_the_queue_that_it_has_moved_to() -> None:
    left: list[Waiter] = []

    async def scenario() -> None:
        waiter = new_waiter(pytest.fail)
        waiter.moves(3, left.append)
        task = asyncio.create_task(waiter.outcome())
        await turns()
        task.cancel()
        assert left == [waiter]
        assert waiter.width == 3
        with pytest.raises(asyncio.CancelledError):
            await task

    run(scenario())


def test_it_says_whether_it_could_still_be_cancelled() -> None:
    async def scenario() -> None:
        left: list[Waiter] = []
        waiter = new_waiter(left.append)
        assert waiter.cancel() is True
        assert waiter.cancel() is False
        assert left == [waiter]

    run(scenario())


def test_in_another_queue_nobody_has_passed_it_yet() -> None:
    async def scenario() -> None:
        here: list[Waiter] = []
        waiter = new_waiter(pytest.fail)
        waiter.bypass = Bypass(5.0, Emptying(4, 0), 1.0, 0.0)
        waiter.moves(3, here.append)
        assert (waiter.width, waiter.bypass) == (3, None)
        waiter.cancel()
        assert here == [waiter]

    run(scenario())

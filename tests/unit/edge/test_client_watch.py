"""Every way in which a request's work and the end of its client can coincide."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.edge.client_watch import ClientWatch, Interrupted, Interruption, LateListeners
from tests.support.client_messages import ClientMessages
from tests.support.knots import no_knots_of
from tests.support.virtual_time import now, run, settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

GONE = Interruption.CLIENT_GONE
DRAIN = Interruption.DRAIN_ENDED


class Watched:
    """Work inside a watch, as a task of its own. `watch` is there once it has begun."""

    def __init__(self, work: Callable[[ClientWatch], Awaitable[object]]) -> None:
        self.client = ClientMessages()
        self.watch = ClientWatch(self.client.receive, LateListeners(asyncio.get_running_loop()))
        self.ended_at: float | None = None
        self.reached_after = False
        self.task = asyncio.create_task(self._run(work))

    async def _run(self, work: Callable[[ClientWatch], Awaitable[object]]) -> None:
        try:
            async with self.watch:
                self.watch.body_received()
                await work(self.watch)
        finally:
            self.ended_at = now()
        await asyncio.sleep(0)  # what comes after must not be hit by a late cancellation
        await asyncio.sleep(1)
        self.reached_after = True

    async def interruption(self) -> Interruption:
        with pytest.raises(Interrupted) as caught:
            await self.task
        return caught.value.interruption


async def working(_watch: ClientWatch) -> None:
    await asyncio.sleep(10)


def test_work_that_ends_by_itself_is_left_alone() -> None:
    async def scenario() -> None:
        watched = Watched(working)
        await watched.task
        assert watched.ended_at == 10
        assert watched.reached_after
        assert watched.task.cancelling() == 0
        assert watched.client.listeners == 0

    run(scenario())


def test_a_watch_whose_work_is_over_is_gone_without_the_collector() -> None:
    async def scenario() -> None:
        watched = Watched(working)
        await watched.task
        vars(watched).clear()

    with no_knots_of(ClientWatch, asyncio.Task):
        run(scenario())


def test_work_that_is_over_at_once_never_pays_for_a_listener() -> None:
    async def scenario() -> None:
        async def short(_watch: ClientWatch) -> None:
            await asyncio.sleep(0.019)
            assert watched.client.listeners == 0

        watched = Watched(short)
        await watched.task

    run(scenario())


def test_a_client_that_leaves_ends_the_work_at_once() -> None:
    async def scenario() -> None:
        watched = Watched(working)
        await asyncio.sleep(3)
        watched.client.leave()
        assert await watched.interruption() is GONE
        assert watched.ended_at == 3

    run(scenario())


@pytest.mark.parametrize("left_at", [0.0, 0.001, 0.0199, 0.02, 0.0201, 0.05])
def test_a_client_that_left_early_is_noticed_within_100_ms(left_at: float) -> None:
    async def scenario() -> None:
        watched = Watched(working)
        asyncio.get_running_loop().call_at(left_at, watched.client.leave)
        assert await watched.interruption() is GONE
        assert watched.ended_at is not None
        assert watched.ended_at <= left_at + 0.1

    run(scenario())


def test_what_a_client_still_sends_is_no_leaving() -> None:
    async def scenario() -> None:
        watched = Watched(working)
        await asyncio.sleep(1)
        watched.client.body(b"late", more=True)
        watched.client.body()
        await watched.task
        assert watched.ended_at == 10

    run(scenario())


@pytest.mark.parametrize("answered_at", [0.0, 0.01, 1.0])
def test_what_comes_after_the_answer_is_not_ended_by_its_end(answered_at: float) -> None:
    """A server says that the client is gone as soon as the answer is out."""

    async def scenario() -> None:
        async def answer_and_tidy_up(watch: ClientWatch) -> None:
            await asyncio.sleep(answered_at)
            watch.stop_listening()
            watched.client.leave()
            await asyncio.sleep(5)

        watched = Watched(answer_and_tidy_up)
        await watched.task
        assert watched.ended_at == answered_at + 5
        assert watched.client.listeners == 0

    run(scenario())


def test_what_comes_after_the_answer_can_still_be_ended() -> None:
    async def scenario() -> None:
        async def answer_and_hang(watch: ClientWatch) -> None:
            watch.stop_listening()
            await asyncio.sleep(1000)

        watched = Watched(answer_and_hang)
        await asyncio.sleep(1)
        watched.watch.interrupt(DRAIN)
        assert await watched.interruption() is DRAIN

    run(scenario())


def test_before_the_body_is_there_nobody_else_listens() -> None:
    async def scenario() -> None:
        client = ClientMessages()
        async with ClientWatch(client.receive, LateListeners(asyncio.get_running_loop())):
            await asyncio.sleep(1)
            assert client.listeners == 0

    run(scenario())


def test_a_request_may_be_interrupted_before_its_body_is_there() -> None:
    async def scenario() -> None:
        client = ClientMessages()
        watch = ClientWatch(client.receive, LateListeners(asyncio.get_running_loop()))

        async def upload() -> None:
            async with watch, asyncio.timeout(30):
                await client.receive()

        task = asyncio.create_task(upload())
        await asyncio.sleep(1)
        watch.interrupt(DRAIN)
        with pytest.raises(Interrupted) as caught:
            await task
        assert caught.value.interruption is DRAIN
        assert (now(), client.listeners) == (1, 0)

    run(scenario())


def test_only_the_first_interruption_counts() -> None:
    async def scenario() -> None:
        watched = Watched(working)
        await asyncio.sleep(1)
        watched.watch.interrupt(DRAIN)
        watched.watch.interrupt(GONE)
        watched.client.leave()
        await settle()
        assert await watched.interruption() is DRAIN
        assert watched.task.cancelling() == 0

    run(scenario())


def test_an_interruption_before_and_after_the_work_changes_nothing() -> None:
    async def scenario() -> None:
        client = ClientMessages()
        watch = ClientWatch(client.receive, LateListeners(asyncio.get_running_loop()))
        watch.interrupt(DRAIN)
        async with watch:
            watch.body_received()
        watch.interrupt(DRAIN)
        await asyncio.sleep(1)
        assert client.listeners == 0

    run(scenario())


def test_work_interrupted_in_the_step_of_its_end_is_interrupted_once() -> None:
    """The cancellation has nothing left to hit; it must not hit what comes after."""

    async def scenario() -> None:
        async def interrupted_last(watch: ClientWatch) -> None:
            await asyncio.sleep(1)
            watch.interrupt(GONE)

        watched = Watched(interrupted_last)
        assert await watched.interruption() is GONE
        assert watched.task.cancelling() == 0

    run(scenario())


def test_a_cancellation_that_came_too_late_does_not_hit_what_answers_for_it() -> None:
    async def scenario() -> None:
        async def work_and_answer() -> float:
            watch = ClientWatch(ClientMessages().receive, LateListeners(asyncio.get_running_loop()))
            try:
                async with watch:
                    await asyncio.sleep(1)
                    watch.interrupt(DRAIN)
            except Interrupted:
                await asyncio.sleep(5)
            return now()

        assert await asyncio.create_task(work_and_answer()) == 6

    run(scenario())


def test_work_that_fails_in_the_step_of_the_interruption_is_interrupted() -> None:
    async def scenario() -> None:
        async def fails(watch: ClientWatch) -> None:
            await asyncio.sleep(1)
            watch.interrupt(GONE)
            raise OSError("broken")

        watched = Watched(fails)
        with pytest.raises(Interrupted) as caught:
            await watched.task
        assert isinstance(caught.value.__cause__, OSError)

    run(scenario())


def test_an_error_of_the_work_comes_out_as_it_is() -> None:
    async def scenario() -> None:
        async def fails(_watch: ClientWatch) -> None:
            await asyncio.sleep(1)
            raise OSError("broken")

        watched = Watched(fails)
        with pytest.raises(OSError, match="broken"):
            await watched.task
        watched.client.leave()
        await asyncio.sleep(1)
        assert watched.client.listeners == 0

    run(scenario())


def test_cleanup_that_takes_its_time_is_waited_for() -> None:
    async def scenario() -> None:
        async def slow_to_clean(_watch: ClientWatch) -> None:
            try:
                await asyncio.sleep(10)
            finally:
                await asyncio.sleep(2)

        watched = Watched(slow_to_clean)
        await asyncio.sleep(1)
        watched.client.leave()
        assert await watched.interruption() is GONE
        assert watched.ended_at == 3

    run(scenario())


def test_work_that_turns_the_cancellation_into_an_error_is_still_interrupted() -> None:
    async def scenario() -> None:
        async def converts(_watch: ClientWatch) -> None:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                raise OSError("aborted") from None

        watched = Watched(converts)
        await asyncio.sleep(1)
        watched.client.leave()
        assert await watched.interruption() is GONE
        assert watched.task.cancelling() == 0

    run(scenario())


def test_a_task_cancelled_from_outside_is_cancelled() -> None:
    async def scenario() -> None:
        watched = Watched(working)
        await asyncio.sleep(1)
        watched.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watched.task
        assert watched.client.listeners == 0

    run(scenario())


@pytest.mark.parametrize("watch_first", [True, False])
def test_a_cancellation_from_outside_outlives_one_of_ours(watch_first: bool) -> None:
    async def scenario() -> None:
        watched = Watched(working)
        await asyncio.sleep(1)
        actions = [lambda: watched.watch.interrupt(GONE), watched.task.cancel]
        for action in actions if watch_first else reversed(actions):
            action()
        with pytest.raises(asyncio.CancelledError):
            await watched.task
        assert not watched.reached_after

    run(scenario())


@pytest.mark.parametrize("watch_first", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_a_cancellation_from_outside_is_not_lost_in_the_last_step(
    watch_first: bool, fails: bool
) -> None:
    async def scenario() -> None:
        async def both_at_the_end(watch: ClientWatch) -> None:
            await asyncio.sleep(1)
            actions = [lambda: watch.interrupt(GONE), watched.task.cancel]
            for action in actions if watch_first else reversed(actions):
                action()
            if fails:
                raise OSError("broken")

        watched = Watched(both_at_the_end)
        with pytest.raises(asyncio.CancelledError):
            await watched.task
        assert not watched.reached_after

    run(scenario())


def test_a_timeout_inside_the_work_that_fires_with_the_interruption_does_not_win() -> None:
    async def scenario() -> None:
        async def times_out(_watch: ClientWatch) -> None:
            async with asyncio.timeout(5):
                await asyncio.sleep(10)

        watched = Watched(times_out)
        asyncio.get_running_loop().call_at(5, watched.watch.interrupt, DRAIN)
        assert await watched.interruption() is DRAIN
        assert watched.task.cancelling() == 0

    run(scenario())


def test_a_timeout_around_the_watch_still_works() -> None:
    async def scenario() -> None:
        watched = Watched(working)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watched.task, 5)
        assert (watched.ended_at, watched.client.listeners) == (5, 0)

    run(scenario())


def test_a_task_with_a_cancellation_of_old_can_be_watched() -> None:
    """As in the cleanup of a task that was cancelled: that one is not ours to take back."""

    async def scenario() -> None:
        async def watched_while_cancelled() -> Interruption:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                client.leave()
                with pytest.raises(Interrupted) as caught:
                    await watched()
            return caught.value.interruption

        async def watched() -> None:
            async with ClientWatch(
                client.receive, LateListeners(asyncio.get_running_loop())
            ) as watch:
                watch.body_received()
                await asyncio.sleep(10)

        client = ClientMessages()
        task = asyncio.create_task(watched_while_cancelled())
        await settle()
        task.cancel()
        assert await task is GONE
        assert task.cancelling() == 1

    run(scenario())


def test_one_timer_serves_the_listeners_of_all_watches() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        late_listeners = LateListeners(loop)
        clients = [ClientMessages() for _ in range(3)]

        async def watched(client: ClientMessages) -> None:
            async with ClientWatch(client.receive, late_listeners) as watch:
                watch.body_received()
                await asyncio.sleep(1)

        tasks = [asyncio.create_task(watched(client)) for client in clients]
        await asyncio.sleep(0.015)
        assert [client.listeners for client in clients] == [0, 0, 0]
        tasks.append(asyncio.create_task(watched(late := ClientMessages())))
        await asyncio.sleep(0.03)
        assert [client.listeners for client in (*clients, late)] == [1, 1, 1, 1]
        await asyncio.gather(*tasks)

    run(scenario())


def test_after_a_rest_the_next_watch_is_served_as_well() -> None:
    async def scenario() -> None:
        late_listeners = LateListeners(asyncio.get_running_loop())
        for _ in range(2):
            client = ClientMessages()
            async with ClientWatch(client.receive, late_listeners) as watch:
                watch.body_received()
                await asyncio.sleep(0.05)
                assert client.listeners == 1
            await asyncio.sleep(10)

    run(scenario())

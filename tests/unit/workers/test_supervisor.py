"""Workers that are no processes, in virtual time."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest

from proxy.workers.roster import Roster
from proxy.workers.supervisor import StartError, Supervisor, in_words
from tests.support.virtual_time import now, run
from tests.support.worker_reports import report

if TYPE_CHECKING:
    from proxy.workers.changes import Changes
    from proxy.workers.report import WorkerReport


class Worker:
    """Serves a second after its start, until the test or the supervisor ends it."""

    def __init__(self, pid: int, *, obeys: bool = True) -> None:
        self.pid = pid
        self.latest: WorkerReport | None = None
        self.obeys = obeys
        self.code: int | None = None
        self.began = now()
        self._ended = asyncio.Event()

    async def ask(self, within_s: float) -> bool:
        return within_s > 0

    def change(self, changes: Changes) -> None:
        raise AssertionError(f"nobody has changed anything: {changes}")

    async def ready(self) -> bool:
        try:
            async with asyncio.timeout(1.0):
                await self._ended.wait()
        except TimeoutError:
            self.latest = report()
        return self.latest is not None

    async def ended(self) -> int:
        await self._ended.wait()
        assert self.code is not None
        return self.code

    def end(self, code: int) -> None:
        self.code = self.code if self._ended.is_set() else code
        self._ended.set()

    def terminate(self) -> None:
        if self.obeys:
            self.end(0 if self.latest is not None else -signal.SIGTERM)

    def kill(self) -> None:
        self.end(-signal.SIGKILL)


class Gateway:
    """A supervisor that runs, and every worker that it has started."""

    def __init__(self, workers: int = 2) -> None:
        self.started: list[Worker] = []
        self.said_ready = 0
        self.obey = True
        self.fails: OSError | None = None
        self.roster = Roster(lambda: ())
        self.supervisor = Supervisor(self._start, workers, self.roster, ends_within_s=40)
        self.stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.running = asyncio.create_task(self.supervisor.run(self.stop, self._ready))

    async def _start(self, number: int) -> Worker:
        if self.fails is not None:
            raise self.fails
        self.started.append(Worker(100 * number + len(self.started), obeys=self.obey))
        return self.started[-1]

    def _ready(self) -> None:
        self.said_ready += 1

    async def end(self) -> bool:
        if not self.stop.done():
            self.stop.set_result(None)
        return await self.running

    @property
    def alive(self) -> int:
        return sum(worker.code is None for worker in self.started)


def test_it_is_ready_when_all_of_them_serve_and_ends_when_all_have_ended() -> None:
    async def scenario() -> None:
        gateway = Gateway(workers=3)
        await asyncio.sleep(0.5)
        assert (len(gateway.started), gateway.said_ready) == (3, 0)
        await asyncio.sleep(1)
        assert gateway.said_ready == 1
        assert await gateway.end()
        assert gateway.alive == 0
        assert gateway.roster.draining

    run(scenario())


def test_one_that_has_died_is_started_again_later_and_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        gateway = Gateway()
        await asyncio.sleep(2)
        for wait_s in (0.25, 0.5, 1.0):
            died = now()
            gateway.started[-1].end(-signal.SIGKILL)
            await asyncio.sleep(wait_s + 0.01)
            assert gateway.started[-1].began == pytest.approx(died + wait_s)
            await asyncio.sleep(1)
            assert gateway.alive == 2
        assert gateway.said_ready == 1
        assert await gateway.end(), "those have died before anybody was told to end"

    run(scenario())
    assert "worker 2 was killed by SIGKILL; starting it again in 0.25 s" in caplog.text


def test_one_that_was_told_to_end_by_somebody_else_is_started_again_and_not_lost() -> None:
    async def scenario() -> None:
        gateway = Gateway()
        await asyncio.sleep(2)
        gateway.started[0].end(0)
        await asyncio.sleep(2)
        assert gateway.alive == 2
        figures = [figure for family in gateway.roster.page() for figure in family.figures]
        (lost,) = (one.value for one in figures if one.name == "sluice_workers_lost_total")
        assert lost == 0
        await gateway.end()

    run(scenario())


def test_a_start_that_one_of_them_does_not_survive_is_none() -> None:
    async def scenario() -> None:
        gateway = Gateway()
        await asyncio.sleep(0.5)
        gateway.started[1].end(1)
        with pytest.raises(StartError, match="worker 2 ended with exit code 1"):
            await gateway.running
        assert (gateway.said_ready, gateway.alive) == (0, 0)

    run(scenario())


def test_a_worker_that_cannot_be_started_at_all_is_a_failed_start() -> None:
    async def scenario() -> None:
        gateway = Gateway()
        gateway.fails = OSError(12, "Cannot allocate memory")
        with pytest.raises(StartError, match="cannot be started: Cannot allocate memory"):
            await gateway.running

    run(scenario())


def test_one_that_cannot_be_started_again_for_now_is_tried_again() -> None:
    async def scenario() -> None:
        gateway = Gateway()
        await asyncio.sleep(2)
        gateway.fails = OSError(11, "Resource temporarily unavailable")
        gateway.started[0].end(-signal.SIGKILL)
        await asyncio.sleep(0.5)
        gateway.fails = None
        await asyncio.sleep(3)
        assert gateway.alive == 2
        assert await gateway.end()

    run(scenario())


def test_a_stop_before_all_of_them_serve_is_an_end_in_good_order() -> None:
    async def scenario() -> None:
        gateway = Gateway()
        await asyncio.sleep(0.5)
        assert await gateway.end()
        assert (gateway.said_ready, gateway.alive) == (0, 0)

    run(scenario())


def test_a_stop_ends_the_wait_for_the_next_start() -> None:
    async def scenario() -> None:
        gateway = Gateway()
        await asyncio.sleep(2)
        gateway.started[0].end(-signal.SIGKILL)
        await asyncio.sleep(0.1)
        stopped = now()
        assert await gateway.end()
        assert now() == stopped
        assert len(gateway.started) == 2

    run(scenario())


def test_whoever_does_not_end_is_killed_and_the_exit_code_tells() -> None:
    async def scenario() -> None:
        gateway = Gateway()
        gateway.obey = False
        await asyncio.sleep(2)
        stopped = now()
        assert not await gateway.end()
        assert now() == pytest.approx(stopped + 40)
        assert gateway.alive == 0

    run(scenario())


def test_one_that_dies_while_it_drains_is_told_by_the_exit_code() -> None:
    async def scenario() -> None:
        gateway = Gateway()
        gateway.obey = False
        await asyncio.sleep(2)
        gateway.stop.set_result(None)
        await asyncio.sleep(1)
        gateway.started[0].end(-signal.SIGSEGV)
        gateway.started[1].end(0)
        assert not await gateway.running

    run(scenario())


def test_all_of_them_can_be_ended_at_once() -> None:
    async def scenario() -> None:
        gateway = Gateway()
        gateway.obey = False
        await asyncio.sleep(2)
        gateway.stop.set_result(None)
        await asyncio.sleep(1)
        assert gateway.supervisor.kill() == [worker.pid for worker in gateway.started]
        assert not await gateway.running
        assert gateway.alive == 0

    run(scenario())


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "ended with exit code 0"),
        (2, "ended with exit code 2"),
        (-9, "was killed by SIGKILL"),
        (-99, "was killed by signal 99"),
    ],
)
def test_an_exit_code_is_told_in_words(code: int, said: str) -> None:
    assert in_words(code) == said

"""Keeps so many workers running: starts them, starts those anew that have died, ends them all."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING, Protocol

from proxy.workers.back_off import BackOff
from proxy.workers.roster import Member

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from proxy.workers.roster import Roster

_log = logging.getLogger("sluice.workers")


class Worker(Member, Protocol):
    """A process that can be ended."""

    async def ready(self) -> bool:
        """Waits until it serves; False when it has ended before."""
        ...

    async def ended(self) -> int:
        """Waits for its end; the exit code, or minus the number of the signal that killed it."""
        ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class StartError(Exception):
    """A worker ended before all of them served. It has said why by itself."""


class Supervisor:
    """`start` starts the worker of a number; `ends_within_s`: whoever is told to end and has not by
    then is killed."""

    def __init__(
        self,
        start: Callable[[int], Awaitable[Worker]],
        workers: int,
        roster: Roster,
        ends_within_s: float,
    ) -> None:
        self._start = start
        self._numbers = range(1, workers + 1)
        self._roster = roster
        self._ends_within_s = ends_within_s
        self._running: dict[int, Worker] = {}
        self._stopping = asyncio.Event()
        self._all_serve = asyncio.Event()
        self._has_failed = False

    async def run(self, stop: asyncio.Future[None], on_ready: Callable[[], None]) -> bool:
        """Until `stop` is done and every worker has ended; whether all of them ended in good order.

        `on_ready` is called once all serve. Raises StartError if one of them never does. No worker
        is left behind, whatever happens.
        """
        keeping = [asyncio.create_task(self._keep(number)) for number in self._numbers]
        announcing = asyncio.create_task(self._announce(on_ready))
        watched: list[asyncio.Future[None]] = [stop, *keeping]
        try:
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            await self._end(keeping)
        finally:
            self.kill()
            announcing.cancel()
            await asyncio.gather(*keeping, announcing, return_exceptions=True)
        for task in keeping:
            task.result()
        return not self._has_failed

    def kill(self) -> list[int]:
        """Ends all of them at once; their process ids."""
        self._stopping.set()
        for worker in self._running.values():
            worker.kill()
        return [worker.pid for worker in self._running.values()]

    async def _end(self, keeping: Sequence[asyncio.Task[None]]) -> None:
        self._roster.stopping = True
        self._stopping.set()
        for worker in self._running.values():
            worker.terminate()
        _, left = await asyncio.wait(keeping, timeout=self._ends_within_s)
        if left:
            _log.error("workers %s do not end: killing them", sorted(self._running))
            self._has_failed = True

    async def _announce(self, on_ready: Callable[[], None]) -> None:
        await self._all_serve.wait()
        on_ready()

    async def _keep(self, number: int) -> None:
        back_off, loop = BackOff(), asyncio.get_running_loop()
        while not self._stopping.is_set():
            began = loop.time()
            try:
                fate = in_words(await self._one_life(number))
            except OSError as error:
                fate = f"cannot be started: {error.strerror}"
            if self._stopping.is_set():
                return
            if not self._all_serve.is_set():
                raise StartError(f"worker {number} {fate}, before all of them served")
            wait_s = back_off.after(loop.time() - began)
            _log.error("worker %d %s; starting it again in %g s", number, fate, wait_s)
            await self._pause(wait_s)

    async def _one_life(self, number: int) -> int:
        worker = await self._start(number)
        self._running[number] = worker
        self._roster.join(number, worker)
        if self._stopping.is_set():  # while it was being started
            worker.terminate()
        served = await worker.ready()
        if served:
            _log.info("worker %d serves (process %d)", number, worker.pid)
            if all(map(self._roster.serves, self._numbers)):
                self._all_serve.set()
        code = await worker.ended()
        del self._running[number]
        was_told = self._stopping.is_set()
        self._roster.leave(number, lost=code != 0 and not was_told)
        if served and was_told and code != 0:
            _log.error("worker %d %s while it drained", number, in_words(code))
            self._has_failed = True
        return code

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return


def in_words(code: int) -> str:
    """What an exit code says."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"

"""A simulated engine behind the core, watched by the real poller, under load, in virtual time.

    async with loaded(limit, max_num_seqs=64) as stand:
        stand.add_clients(300)
        await asyncio.sleep(60)

No HTTP between core and engine: what is looked at is how many run, and that takes thousands.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import httpx

from proxy.admission.controller import AdmissionController
from proxy.admission.outcome import Reason, Refused
from proxy.admission.request import AdmissionRequest
from proxy.simulator.engine import EngineDeadError
from proxy.simulator.generation import Output
from proxy.simulator.options import SimulatorOptions
from proxy.simulator.sequence import Sequence
from proxy.simulator.server import create_app
from proxy.simulator.text import Answer
from proxy.vllm.poller import EnginePoller
from proxy.vllm.silence import Held
from tests.support.admission import UPSTREAM, RecordingObserver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from proxy.admission.ports import Limit
    from proxy.simulator.simulated_engine import SimulatedEngine
    from proxy.vllm.poller import EngineStatus

_LONGEST_QUEUE = 10_000


@dataclass(frozen=True, slots=True)
class Work:
    """What a request asks for: a prompt, and an answer of `shortest` to `longest` tokens."""

    prompt: int = 20
    shortest: int = 20
    longest: int = 60


class Stand:
    """The core hears of the engine as in the application. Before it does, `before_change` and
    `on_reading` are called: that is where limits are moved. `completed` counts requests, `refused`
    lists the reasons."""

    def __init__(self, limit: Limit, options: SimulatorOptions, clock: Callable[[], float]) -> None:
        app = create_app(options)
        self.engine: SimulatedEngine = app.state.engine
        self.controller = AdmissionController(
            {UPSTREAM: limit}, _LONGEST_QUEUE, clock, RecordingObserver()
        )
        self.before_change: list[Callable[[EngineStatus], None]] = []
        self.on_reading: list[Callable[[EngineStatus], None]] = []
        self.completed = 0
        self.refused: list[Reason] = []
        self.poller = EnginePoller(
            "http://engine",
            None,
            self._changed,
            self._read,
            lambda: Held(self.in_flight),
            transport=httpx.ASGITransport(app),
        )
        self._clock = clock
        self._clients: list[asyncio.Task[None]] = []
        self._dice = random.Random(4711)

    @property
    def in_flight(self) -> int:
        return self.controller.snapshot().in_flight

    def add_clients(self, count: int, work: Work | None = None) -> None:
        """So many clients that ask again as soon as they have their answer, and wait as long as it
        takes."""
        for _ in range(count):
            client = asyncio.create_task(self._ask_again_and_again(work or Work()))
            self._clients.append(client)

    async def stop_clients(self) -> None:
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        self._clients.clear()

    async def ask(self, work: Work | None = None, wait_s: float = math.inf) -> None:
        """One request; raises Refused as the core does."""
        request = AdmissionRequest(1, self._clock() + wait_s)
        async with self.controller.admit(request) as permit:
            generation = self.engine.generate([self._output(work or Work())], stream=False)
            try:
                await generation.done()
                permit.complete()
            finally:
                generation.abort()

    async def restart_engine(self, **changes: object) -> None:
        """With other options; what ran is lost."""
        self.engine.options = replace(self.engine.options, **changes)
        await self.engine.restart()

    async def _ask_again_and_again(self, work: Work) -> None:
        await asyncio.sleep(self._dice.random())
        while True:
            try:
                await self.ask(work)
                self.completed += 1
            except Refused as refusal:
                self.refused.append(refusal.reason)
                await asyncio.sleep(1 + self._dice.random())
            except EngineDeadError:
                await asyncio.sleep(1 + self._dice.random())

    def _output(self, work: Work) -> Output:
        tokens = self._dice.randint(work.shortest, work.longest)
        return Output(Sequence(work.prompt, tokens), Answer.to_prompt(b"", 0, tokens))

    def _changed(self, status: EngineStatus) -> None:
        for hear in self.before_change:
            hear(status)
        if status.stalled:
            self.controller.suspend(UPSTREAM, Reason.UPSTREAM_STALLED)
        elif status.refuses:
            self.controller.suspend(UPSTREAM, Reason.UPSTREAM_UNAVAILABLE)
        else:
            self.controller.resume(UPSTREAM)

    def _read(self, status: EngineStatus) -> None:
        for hear in self.on_reading:
            hear(status)
        self.controller.limit_changed()


@contextlib.asynccontextmanager
async def loaded(limit: Limit, **options: object) -> AsyncIterator[Stand]:
    """`options` are those of SimulatorOptions."""
    stand = Stand(limit, SimulatorOptions(**options), asyncio.get_running_loop().time)
    async with stand.engine:
        stand.poller.start()
        try:
            yield stand
        finally:
            await stand.stop_clients()
            await stand.poller.stop()
    assert stand.in_flight == 0

"""The engine, run by one asyncio task on the event loop's clock: real time, or a test's virtual
time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from proxy.simulator.engine import Engine, EngineDeadError, EngineOutOfMemoryError, EngineSnapshot
from proxy.simulator.faults import Die, Fault, ResetStreams, Stall
from proxy.simulator.generation import Generation, Output
from proxy.simulator.log_lines import LogLine, death_lines, out_of_memory_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from proxy.simulator.counters import EngineCounters
    from proxy.simulator.engine import Step
    from proxy.simulator.faults import TimedFault
    from proxy.simulator.options import SimulatorOptions
    from proxy.simulator.sequence import Sequence

# vLLM looks so often whether its engine has died, and exits then.
WATCHDOG_S = 5.0
# Timers are good to about a millisecond: shorter steps run at once and are slept off together.
_SHORTEST_SLEEP_S = 0.0005
# A loop that was held up catches up with at most this much.
_MAX_LAG_S = 0.01


class QueueFullError(Exception):
    """`max_num_queued_reqs` sequences are in the engine already."""


class SimulatedEngine:
    """Start it inside a running loop, by `start()` and `stop()` or by `async with`.

    `on_exit` is called when vLLM's process would end: some seconds after the engine's death, or at
    the first request answered with its error. Unless replaced, it sets `exited`, and the app
    refuses whatever comes then.
    """

    def __init__(
        self, options: SimulatorOptions, log: Callable[[LogLine], None] = lambda _line: None
    ) -> None:
        self.options = options
        self.on_exit: Callable[[], None] = self._mark_exited
        self.exited = False
        self.rejections = 0
        """Requests turned away by `max_num_queued_reqs`."""
        self._log = log
        self._engine = Engine(options.engine_options())
        self._task: asyncio.Task[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._stall_end: asyncio.TimerHandle | None = None
        self._idle: asyncio.Future[None] | None = None
        self._owners: dict[Sequence, Generation] = {}
        self._streamed: dict[Sequence, int] = {}
        self._reset_after: int | None = None
        self._frozen: EngineSnapshot | None = None

    @property
    def dead(self) -> bool:
        return self._engine.dead

    @property
    def counters(self) -> EngineCounters:
        return self._engine.counters

    def snapshot(self) -> EngineSnapshot:
        """The engine as it is."""
        return self._engine.snapshot()

    def published(self) -> EngineSnapshot:
        """The engine as its metrics show it: an engine that is stuck reports nothing new."""
        return self._frozen or self._engine.snapshot()

    async def start(self) -> None:
        """Begins stepping, and counting the time to the faults it was given. Twice is harmless."""
        if self._task is not None:
            return
        for timed in self.options.faults:
            self.schedule(timed)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="simulated engine")

    async def stop(self) -> None:
        """Ends it; what is unfinished ends as it is, with `abort` for its reason."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._forget_stall_end()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._cut_short()

    async def restart(self) -> None:
        """As a supervisor does after a death: a fresh engine, without the faults of the old one."""
        await self.stop()
        self._engine = Engine(self.options.engine_options())
        self._reset_after = self._frozen = None
        self.exited = False
        self.rejections = 0
        self._task = asyncio.get_running_loop().create_task(self._run(), name="simulated engine")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def check_admission(self, sequences: int) -> None:
        """Raises EngineDeadError when it is dead or not running, QueueFullError when that many more
        would be too many."""
        if self.dead or self._task is None:
            raise EngineDeadError
        limit = self.options.max_num_queued_reqs
        if limit is not None and self._engine.unfinished + sequences > limit:
            self.rejections += 1
            raise QueueFullError

    def generate(self, outputs: list[Output], *, stream: bool, n: int = 1) -> Generation:
        """Submits them together. Raises EngineDeadError; ValueError for what never fits.

        Only a `stream` is told of every token. `n`: how many outputs share a prompt.
        """
        for _ in range(len(outputs) // n):
            self._engine.counters.request_n.observe(n)
        generation = Generation(outputs, self._abort, n, self._reset_after if stream else None)
        now_s = asyncio.get_running_loop().time()
        for index, output in enumerate(outputs):
            self._engine.submit(output.sequence, now_s)
            self._owners[output.sequence] = generation
            if stream:
                self._streamed[output.sequence] = index
        self._wake()
        return generation

    def schedule(self, timed: TimedFault) -> None:
        """Lets a fault set in, its time counted from now."""
        if timed.at_s:
            loop = asyncio.get_running_loop()
            self._timers.append(loop.call_later(timed.at_s, self.inject, timed.fault))
        else:
            self.inject(timed.fault)

    def inject(self, fault: Fault) -> None:
        """Lets a fault set in now."""
        match fault:
            case Stall(for_s):
                self._stall(for_s)
            case Die():
                self._die(death_lines())
            case ResetStreams(tokens):
                self._reset_after = tokens
            case _:
                self._engine.inject(fault)

    def resume(self) -> None:
        """Ends a stall."""
        self._forget_stall_end()
        self._engine.resume()
        self._frozen = None
        self._wake()

    def recover(self) -> None:
        """Ends every fault but death; those that are still to come do come."""
        self._reset_after = None
        self._engine.recover()
        self.resume()

    def exit(self) -> None:
        """What vLLM does once it has noticed that its engine is dead."""
        if self.dead and not self.options.keep_alive_on_engine_death:
            self.on_exit()

    def _mark_exited(self) -> None:
        self.exited = True

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while not self._engine.dead:
            duration_s = self._begin_step(due_s)
            if duration_s is None:
                await self._work()
                due_s = loop.time()
                continue
            due_s = max(due_s + duration_s, loop.time() - _MAX_LAG_S)
            ahead_s = due_s - loop.time()
            await asyncio.sleep(ahead_s if ahead_s > _SHORTEST_SLEEP_S else 0)
            if not self._engine.dead:
                self._deliver(self._engine.end_step(due_s))

    def _begin_step(self, now_s: float) -> float | None:
        try:
            return self._engine.begin_step(now_s)
        except EngineOutOfMemoryError as error:
            self._die(out_of_memory_lines(self.options, error.prefill_tokens))
            return None

    async def _work(self) -> None:
        """Waits until there may be something to do."""
        if not self._engine.dead:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    def _wake(self) -> None:
        idle, self._idle = self._idle, None
        if idle is not None and not idle.done():
            idle.set_result(None)

    def _deliver(self, step: Step) -> None:
        owners, streamed = self._owners, self._streamed
        if streamed:
            for sequence in step.advanced:
                index = streamed.get(sequence)
                if index is not None:
                    owners[sequence].advanced(index)
        for sequence in step.finished:
            streamed.pop(sequence, None)
            owners.pop(sequence).one_finished()

    def _abort(self, generation: Generation) -> None:
        now_s = asyncio.get_running_loop().time()
        for output in generation.outputs:
            self._engine.abort(output.sequence, now_s)
            self._owners.pop(output.sequence, None)
            self._streamed.pop(output.sequence, None)

    def _stall(self, for_s: float | None) -> None:
        self._forget_stall_end()
        self._frozen = self.published()
        self._engine.inject(Stall())
        if for_s is not None:
            self._stall_end = asyncio.get_running_loop().call_later(for_s, self.resume)

    def _forget_stall_end(self) -> None:
        """The end of one stall must not be that of the next."""
        if self._stall_end is not None:
            self._stall_end.cancel()
            self._stall_end = None

    def _die(self, lines: list[LogLine]) -> None:
        for line in lines:
            self._log(line)
        self._engine.die()
        self._fail_all()
        self._wake()
        self._timers.append(asyncio.get_running_loop().call_later(WATCHDOG_S, self.exit))

    def _cut_short(self) -> None:
        now_s = asyncio.get_running_loop().time()
        streamed, self._streamed = self._streamed, {}
        owners, self._owners = self._owners, {}
        for sequence, generation in owners.items():
            self._engine.abort(sequence, now_s)
            if sequence in streamed:
                generation.advanced(streamed[sequence])
            generation.one_finished()

    def _fail_all(self) -> None:
        generations = dict.fromkeys(self._owners.values())
        self._owners.clear()
        self._streamed.clear()
        for generation in generations:
            generation.engine_died()

"""Keeps an engine running: starts it, tells how it dies, starts it again, or gives up.

    starting -> up -> dead -> (delay) -> starting ...          dead -> given up

What it meets it tells a Report, in order; what it decides is the RestartPolicy's.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from proxy.supervision.engine_log import EngineLog
from proxy.supervision.restart_policy import Death, GiveUp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.supervision.restart_policy import RestartPolicy
    from proxy.vllm.doctor.evidence import Diagnosis, StartUpFacts

_LOOK_EVERY_S = 0.2
# Whom an engine that still loads keeps waiting: vLLM hears SIGTERM only when it has loaded.
_STOP_LOADING_S = 3.0
# How long whoever watches the engine may take to see that the one before is gone.
_NOTICED_WITHIN_S = 5.0


class Engine(Protocol):
    """One running engine; EngineProcess, which see."""

    async def ended(self) -> int: ...

    def leave(self) -> None: ...

    async def stop(self, within_s: float) -> int: ...


class Report(Protocol):
    """What happens, for whoever reads logs."""

    def line(self, text: str) -> None:
        """The engine wrote it."""

    def starting(self, attempt: int) -> None: ...

    def up(self, after_s: float, facts: StartUpFacts) -> None: ...

    def died(self, death: Death, diagnosis: Diagnosis) -> None: ...

    def starts_again(self, delay_s: float) -> None: ...

    def gave_up(self, decided: GiveUp, death: Death) -> None: ...


@dataclass(slots=True)
class _Life:
    engine: Engine
    log: EngineLog
    began_s: float
    up_since_s: float | None = None


class Supervisor:
    """`start_engine` starts one whose output goes to the callable it is given. `is_up` is what
    somebody else sees of it: whether it answers; `has_died` tells that one to look again. `clock`
    is the event loop's time()."""

    def __init__(
        self,
        start_engine: Callable[[Callable[[bytes], None]], Awaitable[Engine]],
        policy: RestartPolicy,
        report: Report,
        is_up: Callable[[], bool],
        has_died: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._start_engine = start_engine
        self._policy = policy
        self._report = report
        self._is_up = is_up
        self._has_died = has_died
        self._clock = clock
        self._life: _Life | None = None
        self._is_leaving = False
        self._task: asyncio.Task[None] | None = None
        self.last_death: Death | None = None
        """Set for good once it has given up."""

    def start(self) -> None:
        """Begins. Needs a running event loop."""
        self._task = asyncio.create_task(self._run(), name="engine supervisor")

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done when it has given up, or when no engine could be started at all."""
        if self._task is None:
            raise RuntimeError("start() comes first")
        return self._task

    def leave(self) -> None:
        """From now on it starts no engine, and the one that runs may not outlive us."""
        self._is_leaving = True
        if self._life is not None:
            self._life.engine.leave()

    async def stop(self, within_s: float) -> None:
        """SIGTERM to the engine if there is one, and SIGKILL when `within_s` is over; sooner where
        it is not up yet, and so has nothing to finish.

        Raises what no engine could be started for, an OSError.
        """
        self.leave()
        ended = self.ended
        ended.cancel()
        await asyncio.wait([ended])
        if self._life is not None:
            is_loading = self._life.up_since_s is None
            await self._life.engine.stop(min(within_s, _STOP_LOADING_S) if is_loading else within_s)
            self._life.log.close()
            self._life = None
        if not ended.cancelled():
            ended.result()

    async def _run(self) -> None:
        attempt = 1
        while not self._is_leaving:
            self._report.starting(attempt)
            death = await self._live()
            decided = self._policy.after(death)
            if self._is_leaving:
                return
            if isinstance(decided, GiveUp):
                self.last_death = death
                self._report.gave_up(decided, death)
                return
            self._report.starts_again(decided.delay_s)
            await asyncio.sleep(decided.delay_s)
            attempt += 1

    async def _live(self) -> Death:
        """From an engine's start to its end."""
        log = EngineLog(self._report.line)
        # Not to be cancelled in the middle, or an engine would run that nobody knows of.
        starting = asyncio.ensure_future(self._start_engine(log.feed))
        try:
            engine = await asyncio.shield(starting)
        finally:
            engine = await starting
            self._life = life = _Life(engine, log, self._clock())
        if self._is_leaving:
            engine.leave()
        watching = asyncio.create_task(self._until_up(life), name="engine start")
        try:
            code = await engine.ended()
        finally:
            watching.cancel()
        self._life = None
        self._has_died()
        return self._judge(life, code)

    async def _until_up(self, life: _Life) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NOTICED_WITHIN_S):
                # What is seen may still be the one before, unless this one says that it serves.
                await _until(lambda: not self._is_up() or life.log.facts().ready)
        await _until(self._is_up)
        life.up_since_s = self._clock()
        self._report.up(life.up_since_s - life.began_s, life.log.facts())

    def _judge(self, life: _Life, code: int) -> Death:
        since = life.up_since_s
        served_s = None if since is None else self._clock() - since
        life.log.close()
        diagnosis = life.log.diagnosis()  # of what has been read already: no millisecond
        death = Death(code, served_s, diagnosis.oom, diagnosis.phase)
        if not self._is_leaving:
            self._report.died(death, diagnosis)
        return death


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - what others see can only be asked for
        await asyncio.sleep(_LOOK_EVERY_S)

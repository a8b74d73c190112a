"""The soak itself: a rehearsal, after which the gateway is looked at; the run; and another look."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.soak import rest
from tests.soak.asked import ROUTES
from tests.soak.invariants import Bounds, Invariants
from tests.soak.memory import MemoryCurve, memory_of
from tests.soak.pages import LOAD_PATH, PageReader, Sample, read_engine, read_gateway
from tests.soak.stand import clients, stand
from tests.soak.troubles import Troubles
from tests.support.process_figures import processor_seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.soak.census import Census
    from tests.soak.plan import Plan
    from tests.soak.stand import Clients, Stand

_LOOKS_EVERY_S = 0.1
_MEMORY_EVERY_S = 1.0
_TOLD_EVERY_S = 60.0
_REHEARSED_BY = 60
_REHEARSAL_PAUSE_S = (0.1, 0.6)


@dataclass
class Look:
    """At a gateway at rest."""

    descriptors: int
    census: Census
    sample: Sample


@dataclass
class Result:
    plan: Plan
    invariants: Invariants
    memory: MemoryCurve = field(default_factory=MemoryCurve)
    troubles: Counter[str] = field(default_factory=Counter)
    told: dict[str, object] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    received: int = 0
    seconds: float = 0.0
    processor_s: float = 0.0
    latest_look_s: float = 0.0
    least_held: int = 0
    before: Look | None = None
    after: Look | None = None
    not_idle: str = ""
    seats_are_wrong: str = ""


class Soak:
    def __init__(self, plan: Plan, scratch: Path, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._scratch = scratch
        self._say = say
        bounds = Bounds(plan.limit, plan.places, 2 * plan.connections)
        self.result = Result(plan, Invariants(bounds))

    async def run(self) -> Result:
        async with stand(self._plan, self._scratch) as made:
            self._say("rehearsal")
            await self._rehearse(made)
            self.result.before = await self._look(made)
            if not self._plan.has_collector:
                await made.inside.ask("no collector")
            self._say("the run")
            await self._go_on(made)
            self._say("rest")
            self.result.after = await self._look(made)
            self.result.seats_are_wrong = await rest.seats_are_exact(made, self._plan)
        return self.result

    async def _rehearse(self, made: Stand) -> None:
        """Whatever is made at the first request of its kind is made now."""
        plan = self._plan
        async with clients(made.gateway.port, _REHEARSED_BY, plan, _REHEARSAL_PAUSE_S):
            await asyncio.sleep(plan.rehearsal_s)

    async def _look(self, made: Stand) -> Look:
        try:
            await made.gateway.until_idle(rest.IDLE_WITHIN_S)
        except AssertionError as wrong:
            self.result.not_idle = f"{wrong}"
        wanted = None if self.result.before is None else self.result.before.descriptors
        async with PageReader(made.gateway.admin_port) as reader:
            sample = read_gateway(await reader.page(), ROUTES)
        return Look(
            await rest.descriptors_at_rest(made, wanted), await rest.census_at_rest(made), sample
        )

    async def _go_on(self, made: Stand) -> None:
        plan, result = self._plan, self.result
        troubles = Troubles(
            made.engines, random.Random(plan.seed), plan.troubles_last_s, plan.troubles_pause_s
        )
        began, used = time.monotonic(), processor_seconds(made.gateway.pid)
        port = made.gateway.port
        async with clients(port, plan.connections, plan, plan.pause_s) as them:
            watching = [
                asyncio.create_task(one)
                for one in (
                    self._watch_gateway(made),
                    *(self._watch_engine(one.port) for one in made.engines),
                    self._watch_memory(made, them),
                    troubles.go_on(),
                )
            ]
            try:
                await asyncio.wait(
                    watching, timeout=plan.seconds, return_when=asyncio.FIRST_EXCEPTION
                )
                result.seconds = time.monotonic() - began
                result.processor_s = processor_seconds(made.gateway.pid) - used
            finally:
                await _cancel(watching)
            await troubles.end()
        result.told, result.troubles = them.told, troubles.counts

    async def _watch_gateway(self, made: Stand) -> None:
        due = time.monotonic()
        async with PageReader(made.gateway.admin_port) as reader:
            while True:
                sample = read_gateway(await reader.page(), ROUTES)
                self.result.invariants.see(sample)
                late = time.monotonic() - due
                self.result.latest_look_s = max(self.result.latest_look_s, late)
                due = max(due + _LOOKS_EVERY_S, time.monotonic())
                await asyncio.sleep(due - time.monotonic())

    async def _watch_engine(self, port: int) -> None:
        """An engine that was killed has none and no page."""
        async with PageReader(port, LOAD_PATH) as reader:
            while True:
                with contextlib.suppress(OSError):
                    requests = read_engine(await reader.page())
                    self.result.invariants.see_engine(f"engine {port}", requests)
                await asyncio.sleep(_LOOKS_EVERY_S)

    async def _watch_memory(self, made: Stand, them: Clients) -> None:
        began = told_at = time.monotonic()
        result, everybody = self.result, False
        while True:
            now = time.monotonic()
            memory = memory_of(made.gateway.pid)
            result.memory.add(now - began, memory, await made.inside.blocks())
            everybody = everybody or them.held >= self._plan.connections
            if everybody:
                result.least_held = min(result.least_held or them.held, them.held)
            if now - told_at >= _TOLD_EVERY_S:
                told_at = now
                self._say(
                    f"{now - began:.0f} s: {memory.rss / 2**20:.1f} MiB, {them.held} connections, "
                    f"{them.number('good')} good requests, broken {dict(result.invariants.broken)}"
                )
            await asyncio.sleep(_MEMORY_EVERY_S)


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    """Raises what one of them has failed with."""
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome

"""What may befall gateways that share a limit, and what the engine saw of it.

Seats that a stopped gateway holds and does not use are nobody's to give (docs/several-gateways.md):
they count as `locked`. Windows in which less than all may be in use, as promised there:

    killed gateway           6 s from the kill
    store away               until it is back; 3 s more if it lost its memory, 15 if a gateway
                             was killed or stopped meanwhile or up to 6 s before
    a gateway that goes on   1 s from when it hears of the store again
"""

from __future__ import annotations

import asyncio
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.sharing_cluster import LIMIT

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.support.sharing_cluster import Cluster

ENOUGH = 0.95 * LIMIT
KILLED_S = 6.0
GRACE_S = 3.0
MISSING_S = 15.0
GOES_ON_S = 1.0
STOPPED_S = 8.0
_LOOKS_EVERY_S = 0.02
_ASKS_EVERY_S = 0.3


@dataclass(frozen=True)
class Trouble:
    kind: str
    began: float
    ended: float


@dataclass(frozen=True)
class Look:
    at: float
    used: int
    locked: int


@dataclass
class Record:
    """Looks at the engine through a whole run, and what happened in it. Times are the loop's."""

    looks: list[Look] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)

    def of_kind(self, *kinds: str) -> list[Trouble]:
        return [one for one in self.troubles if one.kind in kinds]

    def windows(self) -> list[tuple[float, float]]:
        """In which less than all may be in use."""
        found = [(one.began, one.began + KILLED_S) for one in self.of_kind("kill")]
        found += [(one.ended, one.ended + GOES_ON_S) for one in self.of_kind("stop", "cut")]
        found += [(one.began, one.ended + GOES_ON_S) for one in self.of_kind("silence")]
        for one in self.of_kind("restart"):
            was_hit = any(
                hit.began < one.ended + GRACE_S and hit.ended > one.began - KILLED_S
                for hit in self.of_kind("kill", "stop")
            )
            found.append((one.began, one.ended + (MISSING_S if was_hit else GRACE_S) + GOES_ON_S))
        return found

    def use_while_store_up(self) -> float:
        away = [(one.began, one.ended) for one in self.of_kind("restart", "silence")]
        return _share(_outside(self.looks, away), with_locked=False)

    def use_of_what_is_not_locked(self) -> float:
        away = [(one.began, one.ended) for one in self.of_kind("restart", "silence")]
        return _share(_outside(self.looks, away), with_locked=True)

    def calm_looks(self) -> list[Look]:
        return _outside(self.looks, self.windows())

    def use_outside_windows(self) -> float:
        return _share(self.calm_looks(), with_locked=True)

    def back_after_kills(self) -> list[float]:
        """For each kill near which the store was up: how long until the seats were in use again."""
        away = [
            (one.began - KILLED_S, one.ended + (MISSING_S if one.kind == "restart" else GOES_ON_S))
            for one in self.of_kind("restart", "silence")
        ]
        kills = [one.began for one in self.of_kind("kill")]
        return [self._back_after(at) for at in kills if not any(a <= at <= b for a, b in away)]

    def _back_after(self, killed_at: float) -> float:
        """The engine aborts what a dead gateway had sent within the first tenth of a second."""
        for look in self.looks:
            if look.at > killed_at + 0.1 and look.used + look.locked >= ENOUGH:
                return look.at - killed_at
        return float("inf")

    def __str__(self) -> str:
        kinds = {one.kind for one in self.troubles}
        counts = ", ".join(f"{kind} {len(self.of_kind(kind))}" for kind in sorted(kinds))
        back = self.back_after_kills()
        times = [f"{how(back):.1f}" for how in (min, statistics.median, max)] if back else ["-"]
        seconds = self.looks[-1].at - self.looks[0].at
        return (
            f"{seconds:.0f} s, {len(self.looks)} looks; {counts}\n"
            f"most seats in use at a look: {max(one.used for one in self.looks)} of {LIMIT}\n"
            f"used while the store was up: {self.use_while_store_up():.1%}; "
            f"of what no stopped gateway held: {self.use_of_what_is_not_locked():.1%}\n"
            f"the same outside the windows: {self.use_outside_windows():.1%} "
            f"({len(self.calm_looks()) / len(self.looks):.0%} of the run)\n"
            f"seats in use again after a kill ({len(back)} with the store up): "
            f"{' / '.join(times)} s (least, median, most)"
        )


def _outside(looks: list[Look], windows: list[tuple[float, float]]) -> list[Look]:
    return [one for one in looks if not any(began <= one.at <= end for began, end in windows)]


def _share(looks: list[Look], *, with_locked: bool) -> float:
    if not looks:
        return float("nan")
    room = sum(LIMIT - (one.locked if with_locked else 0) for one in looks)
    return sum(one.used for one in looks) / room


class Chaos:
    """One trouble after the other, each kind once and then at random."""

    def __init__(self, cluster: Cluster, rng: random.Random, pause_s: tuple[float, float]) -> None:
        self.record = Record()
        self._cluster = cluster
        self._rng = rng
        self._pause_s = pause_s
        self._leased: dict[str, int] = {}
        self._later: list[asyncio.Task[None]] = []

    async def rage(self, seconds: float) -> None:
        """Until everybody is back."""
        watching = [asyncio.create_task(self._look()), asyncio.create_task(self._ask())]
        kinds = [self._kill, self._stop, self._restart, self._silence, self._cut, self._kill]
        loop = asyncio.get_running_loop()
        ends, number = loop.time() + seconds, 0
        try:
            while loop.time() < ends:
                trouble = kinds[number] if number < len(kinds) else self._rng.choice(kinds)
                number += 1
                await trouble()
                await asyncio.sleep(self._rng.uniform(*self._pause_s))
            await asyncio.gather(*self._later)
        finally:
            for task in [*watching, *self._later]:
                task.cancel()
            await asyncio.gather(*watching, *self._later, return_exceptions=True)

    async def _look(self) -> None:
        loop, cluster = asyncio.get_running_loop(), self._cluster
        while True:
            locked = sum(
                max(0, self._leased.get(one.name, 0) - one.running) for one in cluster.stopped
            )
            self.record.looks.append(Look(loop.time(), cluster.engine.inflight, locked))
            await asyncio.sleep(_LOOKS_EVERY_S)

    async def _ask(self) -> None:
        """What each holds, to know it when it is stopped."""
        while True:
            for one in list(self._cluster.members):
                try:
                    async with asyncio.timeout(_ASKS_EVERY_S):
                        self._leased[one.name] = (await one.holds()).leased
                except (OSError, TimeoutError, asyncio.IncompleteReadError):
                    continue  # it was killed or stopped just now
            await asyncio.sleep(_ASKS_EVERY_S)

    async def _kill(self) -> None:
        whole = [one for one in self._cluster.members if one.link.is_whole]
        if len(whole) > 1:
            at = asyncio.get_running_loop().time()
            await self._cluster.kill(self._rng.choice(whole))
            self._note("kill", at)
            await self._cluster.join()

    async def _stop(self) -> None:
        if len(self._cluster.members) > 1:
            one = self._rng.choice(self._cluster.members)
            self._cluster.stop(one)
            self._for_a_while("stop", STOPPED_S, lambda: self._cluster.go_on(one))

    async def _cut(self) -> None:
        one = self._rng.choice(self._cluster.members)
        one.link.cut()
        self._for_a_while("cut", self._rng.uniform(2.0, 8.0), one.link.mend)

    async def _restart(self) -> None:
        at = asyncio.get_running_loop().time()
        self._cluster.redis.stop()
        await asyncio.sleep(self._rng.uniform(0.0, 3.0))
        await asyncio.to_thread(self._cluster.redis.start)
        self._note("restart", at)

    async def _silence(self) -> None:
        at = asyncio.get_running_loop().time()
        self._cluster.redis.pause()
        await asyncio.sleep(self._rng.uniform(0.5, 4.0))
        self._cluster.redis.resume()
        self._note("silence", at)

    def _note(self, kind: str, began: float) -> None:
        now = asyncio.get_running_loop().time()
        self.record.troubles.append(Trouble(kind, began, now))

    def _for_a_while(self, kind: str, seconds: float, end: Callable[[], None]) -> None:
        async def wait() -> None:
            at = asyncio.get_running_loop().time()
            await asyncio.sleep(seconds)
            end()
            self._note(kind, at)

        self._later.append(asyncio.create_task(wait()))

"""What befalls the engines: one trouble after the other, at one of them at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.raw_client import ask_once, request_bytes

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Sequence

    from tests.support.restartable_engine import RestartableEngine

FAULT_PATH = "/sim/fault"


@dataclass
class Troubles:
    """`lasts_s`: how long one is left alone after it is in trouble; `pause_s`: until the next."""

    engines: Sequence[RestartableEngine]
    rng: random.Random
    lasts_s: tuple[float, float]
    pause_s: tuple[float, float]
    counts: Counter[str] = field(default_factory=Counter)
    _hit: RestartableEngine | None = None

    async def go_on(self) -> None:
        """Until it is cancelled. Each kind once, in a random order, and then anew."""
        while True:
            kinds = list(KINDS.items())
            self.rng.shuffle(kinds)
            for name, trouble in kinds:
                await asyncio.sleep(self.rng.uniform(*self.pause_s))
                self._hit = self.rng.choice(self.engines)
                await trouble(self, self._hit)
                self._hit = None
                self.counts[name] += 1

    async def last(self) -> None:
        await asyncio.sleep(self.rng.uniform(*self.lasts_s))

    async def end(self) -> None:
        """All are well again, also the one that was left in the middle of its trouble."""
        if self._hit is not None:
            await self._hit.stop()
            await self._hit.start()


async def ask_for(engine: RestartableEngine, fault: str) -> None:
    await ask_once(engine.port, request_bytes(FAULT_PATH, fault.encode()))


async def break_streams(troubles: Troubles, engine: RestartableEngine) -> None:
    """Connections are reset after some tokens."""
    await ask_for(engine, f"reset:{troubles.rng.randint(1, 15)}")
    await troubles.last()
    await ask_for(engine, "")


async def fall_silent(troubles: Troubles, engine: RestartableEngine) -> None:
    """No token, and no end either; sometimes for longer than the gateway waits."""
    await ask_for(engine, "stall")
    await troubles.last()
    await ask_for(engine, "")


async def answer_500(troubles: Troubles, engine: RestartableEngine) -> None:
    await ask_for(engine, "die")
    await troubles.last()
    await engine.stop()
    await engine.start()


async def be_killed(troubles: Troubles, engine: RestartableEngine) -> None:
    """Connections are reset, and then refused until it is back."""
    await engine.kill()
    await troubles.last()
    await engine.start()


async def slow_down(troubles: Troubles, engine: RestartableEngine) -> None:
    await ask_for(engine, f"slow:{troubles.rng.uniform(2, 6):.1f}")
    await troubles.last()
    await ask_for(engine, "")


KINDS: dict[str, Callable[[Troubles, RestartableEngine], Awaitable[None]]] = {
    "reset": break_streams,
    "silent": fall_silent,
    "500": answer_500,
    "killed": be_killed,
    "slow": slow_down,
}

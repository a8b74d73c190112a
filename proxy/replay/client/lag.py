"""How late the generator itself is: a late one measures itself, not the engine.

Twenty times a second a timer says how long after its due time it ran. Whatever waits for the event
loop waits as long: arrivals that are due, and events of streams whose time is to be taken.
"""

from __future__ import annotations

import asyncio
from array import array
from typing import TYPE_CHECKING

from proxy.replay.percentiles import percentile

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY_S = 0.05
LATE_S = 0.1
"""At the 99th percentile. The waits that matter are ten times as long."""


class LoopLag:
    """`watch()` as a task for as long as the replay runs; `clock` in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.seen_s = array("d")

    async def watch(self) -> None:
        while True:
            due_s = self._clock() + EVERY_S
            await asyncio.sleep(EVERY_S)
            self.seen_s.append(max(0.0, self._clock() - due_s))

    @property
    def p99_s(self) -> float:
        return percentile(sorted(self.seen_s), 99) or 0.0

    @property
    def worst_s(self) -> float:
        return max(self.seen_s, default=0.0)

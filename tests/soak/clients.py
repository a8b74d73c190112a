"""The clients: a process of its own that holds all connections open and says once a second what
came of its requests.

python -m tests.soak.clients --port 8080 --connections 2000 --seed 1

A line `stop` lets them finish what they have begun; then the last line says what came of all.
They leave when standard input ends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import uvloop

from tests.bench.machine import raise_open_files
from tests.soak.behaviours import BAD, GOOD, Hung
from tests.soak.wire import connect

if TYPE_CHECKING:
    from tests.soak.wire import Wire

# From one request to the next of a connection, in seconds. With 2,000 connections it makes more
# than twice what 96 seats serve.
PAUSE_S = (2.0, 12.0)
_FEW_AT_ONCE = 50


@dataclass
class Told:
    """What the clients have to tell. `verdicts` are of those who did what they should, `bad` counts
    the others by what they did."""

    is_last: bool = False
    held: int = 0
    connections: int = 0
    refused_connections: int = 0
    good: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        return json.dumps(vars(self)) + "\n"


@dataclass(frozen=True)
class Habits:
    port: int
    bad_share: float
    pause_s: tuple[float, float]


class Client:
    """One held connection."""

    def __init__(self, habits: Habits, rng: random.Random, told: Told) -> None:
        self._habits = habits
        self._rng = rng
        self._told = told
        self._wire: Wire | None = None
        self.is_pausing = False

    async def live(self, stop: asyncio.Event) -> None:
        pause_s = self._rng.uniform(0, self._habits.pause_s[1])
        await self._connected()
        while not stop.is_set():
            self.is_pausing = True
            await asyncio.sleep(pause_s)
            self.is_pausing = False
            await self._once()
            pause_s = self._rng.uniform(*self._habits.pause_s)

    async def _once(self) -> None:
        wire = await self._connected()
        if wire is None:
            return
        if self._rng.random() < self._habits.bad_share:
            await self._badly(wire)
        else:
            await self._well(wire)
        if wire.is_closed:
            await self._connected()

    async def _well(self, wire: Wire) -> None:
        told = self._told
        told.good += 1
        (behaves,) = self._rng.choices(list(GOOD), list(GOOD.values()))
        try:
            seen = await behaves(wire, self._rng)
            # What must not be seen is told with what led to it.
            told.verdicts[f"{seen} ({behaves.__name__})" if seen[0] == "!" else seen] += 1
        except Hung:
            told.verdicts["!nothing within a minute"] += 1
            wire.reset()
            await closing(wire)

    async def _badly(self, wire: Wire) -> None:
        (behaves,) = self._rng.choices(list(BAD), list(BAD.values()))
        self._told.bad[behaves.__name__] += 1
        try:
            await behaves(wire, self._rng)
        except Hung:
            self._told.verdicts[f"!nothing within a minute: {behaves.__name__}"] += 1
        except OSError:
            pass  # the gateway was the first to go
        wire.reset()
        await closing(wire)

    async def _connected(self) -> Wire | None:
        """The connection that is held, a new one if there is none."""
        if self._wire is not None:
            if not self._wire.is_closed:
                return self._wire
            self._told.held -= 1
            self._wire = None
        try:
            self._wire = await connect(self._habits.port)
        except OSError:
            self._told.refused_connections += 1
            return None
        self._told.connections += 1
        self._told.held += 1
        return self._wire


async def closing(wire: Wire) -> None:
    """Until the transport has told that it is closed; it was told to."""
    while not wire.is_closed:
        await asyncio.sleep(0)


async def tell(told: Told) -> None:
    while True:
        await asyncio.sleep(1)
        sys.stdout.write(told.line())
        sys.stdout.flush()


async def main(habits: Habits, connections: int, seed: int) -> None:
    told, stop = Told(), asyncio.Event()
    clients = [Client(habits, random.Random(f"{seed} {one}"), told) for one in range(connections)]
    lives = []
    telling = asyncio.create_task(tell(told))
    listening = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    for one in clients:
        lives.append(asyncio.create_task(one.live(stop)))
        if len(lives) % _FEW_AT_ONCE == 0:
            await asyncio.sleep(0.01)
    await listening
    stop.set()
    for one, life in zip(clients, lives, strict=True):
        if one.is_pausing:
            life.cancel()
    outcomes = await asyncio.gather(*lives, return_exceptions=True)
    telling.cancel()
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            told.verdicts[f"!the client failed: {outcome!r}"] += 1
    told.is_last = True
    sys.stdout.write(told.line())
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, default=2_000)
    parser.add_argument("--bad-share", type=float, default=0.2)
    parser.add_argument("--pause", type=float, nargs=2, default=PAUSE_S)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    raise_open_files()
    uvloop.run(
        main(Habits(asked.port, asked.bad_share, tuple(asked.pause)), asked.connections, asked.seed)
    )

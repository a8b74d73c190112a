"""One storm on one way to the engine, and what it shows."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.arithmetic import percentile
from tests.bench.contenders import Wiring
from tests.bench.processes import free_port, running
from tests.bench.storm.clients import Crowd
from tests.bench.storm.closed_loop import RAMP_S
from tests.bench.storm.engine_watch import until_idle, watching
from tests.bench.storm.engines import until_ready
from tests.bench.storm.noise import CoreNoise
from tests.bench.storm.rate import faded_rate
from tests.bench.storm.recovery import until_normal
from tests.bench.storm.rows import LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.bench.peers import Peers
    from tests.bench.storm.clients import Tally
    from tests.bench.storm.engines import Engine
    from tests.bench.storm.rows import Row, Way

IDLE_WITHIN_S = 60.0
NORMAL_WITHIN_S = 30.0
# Three tries of ten seconds, and the waits between them.
_GONE_WITHIN_S = 35.0
_READY_WITHIN_S = 30.0
# Who is refused as late as that has sat out the queue timeout; sooner is at once.
_WAITED_IN_VAIN_S = 0.9 * LIMITS.queue_timeout_s


@dataclass(frozen=True)
class Place:
    """Where storms are measured. `core` is for everything but the engine."""

    engine: Engine
    peers: Peers
    core: int
    scratch: Path


@dataclass(frozen=True)
class Storm:
    """What one storm showed; the columns of the table are computed from it.

    `offered_per_s` is the rate that was meant. `left`: requests that still had no answer when the
    measurement ended. `client_share` is what this process took of its core; `noise_shares` what
    others took of the engine's core and of this one.
    """

    offered_per_s: float
    good_per_s: float
    tally: Tally
    waiting: int
    running: int
    unread: int
    normal_after_s: float
    left: int
    client_share: float
    noise_shares: tuple[float, float]

    def columns(self) -> dict[str, float]:
        """Without those that there is nothing to compute from."""
        tally = self.tally
        first_bytes = sorted(one.first_byte_s for one in tally.served)
        own_first_bytes = sorted(one.own_first_byte_s for one in tally.served)
        at_once = sorted(one for one in tally.refusals_s if one < _WAITED_IN_VAIN_S)
        in_vain = len(tally.refusals_s) - len(at_once)
        columns = {
            "offered_per_s": self.offered_per_s,
            "good_per_s": self.good_per_s,
            "tries": tally.tries / tally.offered if tally.offered else 0.0,
            "in_vain": 100.0 * in_vain / tally.tries if tally.tries else 0.0,
            "waiting": float(self.waiting),
            "running": float(self.running),
            "unread": float(self.unread),
            "normal_after_s": self.normal_after_s,
            "client_share": self.client_share,
            "engine_noise": self.noise_shares[0],
            "noise": self.noise_shares[1],
        }
        if first_bytes:
            columns["first_byte_s"] = percentile(first_bytes, 0.99)
            columns["own_first_byte_s"] = percentile(own_first_bytes, 0.99)
        if at_once:
            columns["refusal_ms"] = percentile(at_once, 0.99) * 1e3
            columns["refusal_p50_ms"] = percentile(at_once, 0.5) * 1e3
        return columns


async def measure(place: Place, row: Row, per_s: float, seconds: float, seed: int) -> Storm:
    """Starts the way to the engine anew. Raises NotMeasuredError when that or the engine fails."""
    loop = asyncio.get_running_loop()
    with _started(place, row.way) as (port, group):
        await until_ready(port, _READY_WITHIN_S, place.scratch / _LOG)
        before = await until_idle(place.engine.port, IDLE_WITHIN_S)
        async with (
            Crowd(port, row.manner, random.Random(seed)) as crowd,
            watching(place.engine.port) as watch,
        ):
            engine_noise = CoreNoise(place.engine.core, [place.engine.group])
            noise = CoreNoise(place.core, [os.getpgrp(), group])
            cpu_s, began_at = _own_cpu_s(), loop.time()
            await crowd.arrive(per_s, seconds)
            ended_at, client_share = loop.time(), (_own_cpu_s() - cpu_s) / seconds
            noise_shares = engine_noise.share(), noise.share()
            recovery = await until_normal(port, NORMAL_WITHIN_S)
            left = await crowd.until_gone(_GONE_WITHIN_S)
        after = await until_idle(place.engine.port, IDLE_WITHIN_S)
    tally = crowd.tally
    good_per_s = faded_rate(tally.good_moments(), began_at + RAMP_S, ended_at)
    return Storm(
        offered_per_s=per_s,
        good_per_s=good_per_s,
        tally=tally,
        waiting=watch.waiting,
        running=watch.running,
        unread=after.finished - before.finished - len(tally.served) - recovery.answers,
        normal_after_s=recovery.after_s,
        left=left,
        client_share=client_share,
        noise_shares=noise_shares,
    )


_LOG = "contender.log"


@contextlib.contextmanager
def _started(place: Place, way: Way) -> Iterator[tuple[int, int]]:
    """The port that clients ask, and the process group behind it; group 0 where nothing runs."""
    contender = way.launched()
    if contender.launch is None:
        yield place.engine.port, 0
        return
    wiring = Wiring(free_port(), place.engine.url, LIMITS, place.scratch)
    launch = contender.launch(place.peers, wiring)
    log = place.scratch / _LOG
    with running(place.core, launch.command, launch.environment, log) as group:
        yield wiring.port, group


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

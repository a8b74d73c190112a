"""Samples of cards, engine and gateway at an exact period, on one clock.

The moments are `start + n * interval` on the monotonic clock, so that nothing adds up; a moment
that is missed because something took too long is left out, not made up for. What is written is that
clock, set once by the wall clock at the start: a wall clock that is corrected meanwhile does not
bend the curve.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.recording.readings import GpuReading, GpuSource, Reading
from proxy.vllm.gateway_page import GatewayMetrics, parse_gateway_page
from proxy.vllm.metrics_page import EngineMetrics, parse_metrics_page
from proxy.vllm.probe import NoAnswer, Probe

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_PAGE = 4 << 20
_LONGEST_WAIT_S = 2.0
_SHORTEST_WAIT_S = 0.2


def timeout_of(interval_s: float) -> float:
    """How long one question may take: within the period where that is possible."""
    return min(_LONGEST_WAIT_S, max(_SHORTEST_WAIT_S, interval_s * 0.8))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What is asked at each moment; None: not asked for."""

    gpus: GpuSource
    engine: Probe | None = None
    gateway: Probe | None = None


async def record(
    sources: Sources,
    interval_s: float,
    duration_s: float | None,
    stop: asyncio.Event,
    take: Callable[[Reading], None],
) -> None:
    """Calls `take` with each reading until `stop` is set or `duration_s` is over."""
    loop = asyncio.get_running_loop()
    begin_s, wall_s = loop.time(), time.time()
    moment = 0
    while not stop.is_set():
        due_s = moment * interval_s
        if duration_s is not None and due_s >= duration_s:
            return
        if await _stopped_before(stop, begin_s + due_s - loop.time()):
            return
        take(await sample(sources, interval_s, wall_s + loop.time() - begin_s))
        moment = max(moment + 1, int((loop.time() - begin_s) / interval_s))


async def _stopped_before(stop: asyncio.Event, wait_s: float) -> bool:
    if wait_s > 0:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), wait_s)
    return stop.is_set()


async def sample(sources: Sources, interval_s: float, unix_time_s: float) -> Reading:
    """Everything at once; whoever does not answer in time tells nothing."""
    timeout_s = timeout_of(interval_s)
    gpus, engine, gateway = await asyncio.gather(
        _cards(sources.gpus, timeout_s),
        _page(sources.engine, timeout_s),
        _page(sources.gateway, timeout_s),
    )
    return Reading(
        unix_time_s,
        gpus,
        None if sources.engine is None else engine is not None,
        EngineMetrics() if engine is None else parse_metrics_page(engine),
        GatewayMetrics() if gateway is None else parse_gateway_page(gateway),
    )


async def _cards(gpus: GpuSource, timeout_s: float) -> tuple[GpuReading, ...]:
    try:
        async with asyncio.timeout(timeout_s):
            return await gpus.read()
    except TimeoutError:
        return ()


async def _page(probe: Probe | None, timeout_s: float) -> str | None:
    if probe is None:
        return None
    answer = await probe.get("/metrics", timeout_s, _LONGEST_PAGE)
    if isinstance(answer, NoAnswer) or answer.status != 200:
        return None
    return (answer.body or b"").decode(errors="replace")

"""200 streams of 50 events a second: what an event costs, and how evenly events arrive."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING

from tests.bench.arithmetic import percentile
from tests.bench.contenders import (
    DIRECT,
    FASTAPI,
    HAPROXY,
    SGLANG_ROUTER,
    SLUICE,
    SLUICE_HTTPX,
    SLUICE_OTHER,
    VLLM_ROUTER,
    Limits,
)
from tests.bench.event_streams import close_streams, open_streams
from tests.bench.fake_upstream import EngineOptions
from tests.bench.figure import Column, Figure
from tests.bench.machine import cpu_seconds
from tests.bench.processes import NotMeasuredError

if TYPE_CHECKING:
    from tests.bench.contenders import Contender
    from tests.bench.event_streams import EventStream
    from tests.bench.figure import Bench

_STREAMS, _EVENTS_PER_S = 200, 50
_SETTLE_S = 0.5


async def _measure(bench: Bench, contender: Contender) -> dict[str, float]:
    engine = EngineOptions(events_per_s=_EVENTS_PER_S)
    with bench.gateway(contender, Limits(in_flight=_STREAMS + 56), engine) as gateway:
        streams = await open_streams(gateway.port, _STREAMS)
        try:
            return await _watch(streams, gateway.group, bench.seconds)
        finally:
            close_streams(streams)


async def _watch(streams: list[EventStream], group: int, seconds: float) -> dict[str, float]:
    await asyncio.sleep(_SETTLE_S)
    gc.collect()
    gc.disable()  # a pause of ours would pass for one of the proxy's
    try:
        before, began = cpu_seconds(group), time.perf_counter()
        for stream in streams:
            stream.is_recording = True
        await asyncio.sleep(seconds)
        used_s, took_s = cpu_seconds(group) - before, time.perf_counter() - began
    finally:
        gc.enable()
    if not all(stream.is_recording for stream in streams):
        raise NotMeasuredError("a stream broke off")
    gaps_s = sorted(gap for stream in streams for gap in stream.gaps_s)
    events = len(gaps_s)
    if not events:
        raise NotMeasuredError("no event arrived")
    measured = {"events_per_s": events / took_s, "gap_p99_ms": percentile(gaps_s, 0.99) * 1e3}
    if group:
        measured["cpu_us_per_event"] = used_s / events * 1e6
    return measured


FIGURE = Figure(
    name="streams",
    title="200 streams of 50 events a second",
    method=(
        "The engine sends each stream an event of 190 bytes every 20 ms, the streams spread "
        "evenly over those 20 ms. The limit is 256 in flight here, so that all of them run. A gap "
        "is the time between the arrival of one event and the next in the same stream; added is "
        "the 99th percentile through the proxy less the direct one in the same round. Whoever "
        "delivers fewer than 10,000 events a second is saturated: an event of his then costs "
        "less because several are sent at once."
    ),
    columns=(
        Column("events_per_s", "events/s delivered", with_ratio=False),
        Column("cpu_us_per_event", "CPU us per event", digits=1),
        Column("gap_p99_ms", "added p99 gap, ms", digits=2, minus_direct=True, with_ratio=False),
    ),
    contenders=(
        *(DIRECT, FASTAPI, HAPROXY, SGLANG_ROUTER, VLLM_ROUTER),
        *(SLUICE, SLUICE_HTTPX, SLUICE_OTHER),
    ),
    measure=_measure,
)

"""Large request bodies: how fast they pass, and for how long they hold up everything else."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.bench.arithmetic import percentile
from tests.bench.contenders import DIRECT, HAPROXY, SLUICE, SLUICE_OTHER, VLLM_ROUTER
from tests.bench.figure import Column, Figure
from tests.bench.http_client import Client, get_request
from tests.bench.machine import first_in_line
from tests.bench.processes import NotMeasuredError
from tests.bench.wrk import BODY, run_wrk

if TYPE_CHECKING:
    from tests.bench.contenders import Contender
    from tests.bench.figure import Bench, Gateway

SIZES = {"64 KiB": 2**16, "1 MiB": 2**20, "16 MiB": 2**24}
_CONNECTIONS = 4
_PROBES_PER_S = 200
_QUIET_S = 1.0


async def _measure(bench: Bench, contender: Contender) -> dict[str, float]:
    measured: dict[str, float] = {}
    with bench.gateway(contender) as gateway:
        with first_in_line():
            quiet_ms = await _probe(gateway, _QUIET_S) if gateway.health else []
        for label, size in SIZES.items():
            rate, probes_ms = await _pass_bodies(bench, gateway, size)
            measured[f"mb_per_s {label}"] = rate * size / 1e6
            if probes_ms:
                typical_ms = percentile(quiet_ms, 0.5)
                measured[f"stall_ms {label}"] = probes_ms[-1] - typical_ms
                measured[f"stall_p99_ms {label}"] = percentile(probes_ms, 0.99) - typical_ms
    return measured


async def _pass_bodies(bench: Bench, gateway: Gateway, size: int) -> tuple[float, list[float]]:
    """Bodies per second, and sorted milliseconds that the probes took meanwhile."""
    environment = {"BODY_BYTES": str(size)}
    load = asyncio.create_task(
        run_wrk(bench, gateway.port, bench.seconds, BODY, _CONNECTIONS, environment)
    )
    await asyncio.sleep(bench.seconds * 0.1)  # until it is at full speed
    probes_ms: list[float] = []
    with first_in_line():
        if gateway.health:
            probes_ms = await _probe(gateway, bench.seconds * 0.8)
    return (await load).without_errors().requests_per_s, probes_ms


async def _probe(gateway: Gateway, seconds: float) -> list[float]:
    """Asks for the health page again and again; sorted milliseconds that its answers took."""
    client = await Client.connect(gateway.port)
    request = get_request(gateway.health)
    taken_ms: list[float] = []
    end = time.perf_counter() + seconds
    while (asked_at := time.perf_counter()) < end:
        if await client.ask(request) != 200:
            raise NotMeasuredError("the health page answers with an error")
        taken_s = time.perf_counter() - asked_at
        taken_ms.append(taken_s * 1e3)
        await asyncio.sleep(max(1 / _PROBES_PER_S - taken_s, 0))
    client.close()
    return sorted(taken_ms)


FIGURE = Figure(
    name="bodies",
    title="Large request bodies",
    method=(
        "wrk, 4 connections, chat requests whose prompt makes up the size. Meanwhile a client on "
        "a connection of its own asks the proxy 200 times a second for its health page, which it "
        "answers by itself: a stall is the longest that an answer took, less the median while "
        "nothing else went on. So it is measured from outside and has the kernel's scheduling in "
        "it; the probing client runs before wrk and the engine on their core where the machine "
        "lets it. Its 99th percentile is shown beside it."
    ),
    columns=tuple(
        column
        for label in SIZES
        for column in (
            Column(f"mb_per_s {label}", f"{label}: MB/s"),
            Column(f"stall_ms {label}", f"{label}: stall, ms", digits=1, with_ratio=False),
            Column(f"stall_p99_ms {label}", f"{label}: p99, ms", digits=1, with_ratio=False),
        )
    ),
    contenders=(DIRECT, HAPROXY, VLLM_ROUTER, SLUICE, SLUICE_OTHER),
    measure=_measure,
)

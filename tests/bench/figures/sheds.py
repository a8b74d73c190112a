"""Refusals per second while every seat and every place is taken."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.bench.contenders import (
    FASTAPI,
    HAPROXY,
    SGLANG_ROUTER,
    SLUICE,
    SLUICE_OTHER,
    VLLM_ROUTER,
    Limits,
)
from tests.bench.event_streams import close_streams, open_streams
from tests.bench.figure import Column, Figure
from tests.bench.http_client import Client, chat_request
from tests.bench.machine import cpu_seconds
from tests.bench.processes import NotMeasuredError
from tests.bench.wrk import run_wrk

if TYPE_CHECKING:
    from tests.bench.contenders import Contender
    from tests.bench.figure import Bench

# Nobody's wait ends while sheds are counted.
_LIMITS = Limits(queue_timeout_s=300)
_REFUSALS = (429, 503)
_PATIENCE_S = 3.0


async def _measure(bench: Bench, contender: Contender) -> dict[str, float]:
    with bench.gateway(contender, _LIMITS) as gateway:
        holders = await open_streams(gateway.port, _LIMITS.in_flight)
        waiting = [await Client.connect(gateway.port) for _ in range(_LIMITS.waiting)]
        asked = [asyncio.ensure_future(client.ask(chat_request())) for client in waiting]
        try:
            await _until_it_refuses(gateway.port)
            await run_wrk(bench, gateway.port, 1)  # warm
            before = cpu_seconds(gateway.group)
            report = await run_wrk(bench, gateway.port, bench.seconds)
            used_s = cpu_seconds(gateway.group) - before
        finally:
            close_streams(holders)
            for client in waiting:
                client.close()
            await asyncio.gather(*asked, return_exceptions=True)
    if report.refused < report.requests:
        let_in = report.requests - report.refused
        raise NotMeasuredError(f"let in {let_in} of {report.requests} though full")
    if not report.refused:
        raise NotMeasuredError(f"answered nothing though full {report.broken}".strip())
    share = report.refused / report.requests
    return {
        "sheds_per_s": report.requests_per_s * share,
        "cpu_us_per_shed": used_s / report.refused * 1e6,
    }


async def _until_it_refuses(port: int) -> None:
    """One newcomer after the other, for those who fill the queue may still be on their way."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + _PATIENCE_S
    let_in: list[Client] = []
    try:
        while loop.time() < give_up:
            client = await Client.connect(port)
            let_in.append(client)
            try:
                if await asyncio.wait_for(client.ask(chat_request()), 0.2) in _REFUSALS:
                    return
            except TimeoutError:
                continue  # it waits in the queue: there was a place left
    finally:
        for client in let_in:
            client.close()
    raise NotMeasuredError("refuses nobody though full")


FIGURE = Figure(
    name="sheds",
    title="Refusals on one core, seats and queue full",
    method=(
        "64 seats hold silent streams, 128 places hold requests that wait; then wrk, 32 "
        "connections, the small chat request: every answer is a refusal."
    ),
    columns=(
        Column("sheds_per_s", "refusals/s"),
        Column("cpu_us_per_shed", "CPU us per refusal", digits=1),
    ),
    contenders=(FASTAPI, HAPROXY, SGLANG_ROUTER, VLLM_ROUTER, SLUICE, SLUICE_OTHER),
    measure=_measure,
)

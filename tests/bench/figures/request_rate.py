"""Requests per second on one core, and what one costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.contenders import contenders
from tests.bench.figure import Column, Figure
from tests.bench.machine import cpu_seconds
from tests.bench.wrk import run_wrk

if TYPE_CHECKING:
    from tests.bench.contenders import Contender
    from tests.bench.figure import Bench


async def _measure(bench: Bench, contender: Contender) -> dict[str, float]:
    with bench.gateway(contender) as gateway:
        await run_wrk(bench, gateway.port, 1)  # warm
        before = cpu_seconds(gateway.group)
        report = (await run_wrk(bench, gateway.port, bench.seconds)).without_errors()
        used_s = cpu_seconds(gateway.group) - before
    measured = {"requests_per_s": report.requests_per_s}
    if gateway.group:
        measured["cpu_us_per_request"] = used_s / report.requests * 1e6
    return measured


FIGURE = Figure(
    name="requests",
    title="Requests on one core",
    method=(
        "wrk, 32 connections, a small chat request, a small JSON answer. Direct and HAProxy are "
        "bound by the load's core, not by their own; their CPU per request is the one to read."
    ),
    columns=(
        Column("requests_per_s", "requests/s"),
        Column("cpu_us_per_request", "CPU us per request", digits=1),
    ),
    contenders=tuple(contenders()),
    measure=_measure,
)

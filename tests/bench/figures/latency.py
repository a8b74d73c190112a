"""What a proxy adds to one request at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.bench.arithmetic import percentile
from tests.bench.contenders import contenders
from tests.bench.figure import Column, Figure
from tests.bench.http_client import Client, chat_request
from tests.bench.processes import NotMeasuredError

if TYPE_CHECKING:
    from tests.bench.contenders import Contender
    from tests.bench.figure import Bench

_WARM_UP = 50


async def _measure(bench: Bench, contender: Contender) -> dict[str, float]:
    request = chat_request()
    with bench.gateway(contender) as gateway:
        client = await Client.connect(gateway.port)
        for _ in range(_WARM_UP):
            await client.ask(request)
        taken_ms: list[float] = []
        end = time.perf_counter() + bench.seconds
        while (asked_at := time.perf_counter()) < end:
            status = await client.ask(request)
            taken_ms.append((time.perf_counter() - asked_at) * 1e3)
            if status != 200:
                raise NotMeasuredError(f"a request was answered {status}")
        client.close()
    taken_ms.sort()
    return {
        "latency_p50_ms": percentile(taken_ms, 0.5),
        "latency_p99_ms": percentile(taken_ms, 0.99),
    }


FIGURE = Figure(
    name="latency",
    title="Latency of one request at a time",
    method=(
        "One connection, the next request once the answer is there; the small chat request. Added "
        "is the percentile through the proxy less the direct one in the same round."
    ),
    columns=(
        Column("latency_p50_ms", "added p50, ms", digits=3, minus_direct=True),
        Column("latency_p99_ms", "added p99, ms", digits=3, minus_direct=True),
    ),
    contenders=tuple(contenders()),
    measure=_measure,
)

"""What an open, silent stream holds in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.bench.contenders import HAPROXY, SLUICE, SLUICE_OTHER, VLLM_ROUTER, Limits
from tests.bench.event_streams import close_streams, open_streams
from tests.bench.figure import Column, Figure
from tests.bench.http_client import Client, chat_request
from tests.bench.machine import pss_bytes
from tests.bench.processes import NotMeasuredError

if TYPE_CHECKING:
    from tests.bench.contenders import Contender
    from tests.bench.figure import Bench

_WARM_UP = 200
_SETTLE_S = 1.0


async def _measure(bench: Bench, contender: Contender) -> dict[str, float]:
    count = bench.streams_held
    with bench.gateway(contender, Limits(in_flight=count + 64)) as gateway:
        client = await Client.connect(gateway.port)
        for _ in range(_WARM_UP):  # what is loaded and made at first use is no stream's
            await client.ask(chat_request())
        before = pss_bytes(gateway.group)
        streams = await open_streams(gateway.port, count)
        try:
            await asyncio.sleep(_SETTLE_S)
            held = pss_bytes(gateway.group) - before
            if not all(stream.is_open for stream in streams):
                raise NotMeasuredError("a stream broke off")
        finally:
            close_streams(streams)
            client.close()
    return {
        "streams_held": count,
        "memory_before_mib": before / 2**20,
        "memory_kib_per_stream": held / count / 1024,
    }


FIGURE = Figure(
    name="memory",
    title="Memory of an open, idle stream",
    method=(
        "Proportional set size of the process before and with 10,000 streams open that have had "
        "one event each and then nothing; as many fewer as the machine's limit of open files "
        "demands, for a stream takes two. The kernel's socket buffers are not in it."
    ),
    columns=(
        Column("streams_held", "streams", with_ratio=False),
        Column("memory_before_mib", "before, MiB", digits=1, with_ratio=False),
        Column("memory_kib_per_stream", "KiB per stream", digits=1),
    ),
    contenders=(HAPROXY, VLLM_ROUTER, SLUICE, SLUICE_OTHER),
    measure=_measure,
)

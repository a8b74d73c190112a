from __future__ import annotations

import asyncio

import httpx

from proxy.recording.readings import GpuReading
from proxy.recording.simulated_gpu import NoGpus, SimulatedGpus
from proxy.vllm.probe import Probe

PAGE = (
    "timestamp, index, name, memory.used [MiB], memory.total [MiB], utilization.gpu [%]\n"
    "2026/01/01 00:00:00.250, 0, Simulated GPU, 100 MiB, 200 MiB, 100 %\n"
)


def read(answer: httpx.Response) -> tuple[GpuReading, ...]:
    async def scenario() -> tuple[GpuReading, ...]:
        transport = httpx.MockTransport(lambda _request: answer)
        async with Probe("http://sim", transport=transport) as probe:
            return await SimulatedGpus(probe, 1.0).read()

    return asyncio.run(scenario())


def test_the_simulated_card_is_a_card() -> None:
    (card,) = read(httpx.Response(200, stream=httpx.ByteStream(PAGE.encode())))
    assert card == GpuReading(0, "Simulated GPU", 100 << 20, 200 << 20, 1.0)


def test_while_the_engine_is_away_its_card_tells_nothing() -> None:
    assert read(httpx.Response(404)) == ()


def test_no_cards_tell_nothing() -> None:
    assert asyncio.run(NoGpus().read()) == ()

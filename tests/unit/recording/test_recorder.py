from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from proxy.recording.readings import GpuReading, Reading
from proxy.recording.recorder import Sources, record, timeout_of
from proxy.recording.simulated_gpu import NoGpus
from proxy.vllm.probe import Probe
from tests.support.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Callable


class SlowCard:
    """Takes some time for each reading."""

    def __init__(self, *took_s: float) -> None:
        self._took_s = list(took_s)

    async def read(self) -> tuple[GpuReading, ...]:
        await asyncio.sleep(self._took_s.pop(0) if self._took_s else 0.0)
        return (GpuReading(0),)


def recorded(
    *took_s: float,
    interval_s: float = 1.0,
    duration_s: float | None = 5.0,
    take: Callable[[asyncio.Event], None] = lambda _stop: None,
) -> list[tuple[float, Reading]]:
    """Each reading with the moment at which it was begun, counted from the start."""
    seen: list[tuple[float, Reading]] = []

    async def scenario() -> None:
        stop = asyncio.Event()

        def taken(reading: Reading) -> None:
            seen.append((reading.unix_time_s, reading))
            take(stop)

        await record(Sources(gpus=SlowCard(*took_s)), interval_s, duration_s, stop, taken)

    run(scenario())
    begin_s = seen[0][0]
    return [(round(at_s - begin_s, 6), reading) for at_s, reading in seen]


def moments(seen: list[tuple[float, Reading]]) -> list[float]:
    return [at_s for at_s, _ in seen]


def test_samples_keep_their_period_however_long_each_takes() -> None:
    assert moments(recorded(0.3, 0.1, 0.5)) == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_moments_do_not_drift() -> None:
    seen = moments(recorded(interval_s=0.1, duration_s=100.0))
    assert len(seen) == 1000
    assert seen[-1] == pytest.approx(99.9)


def test_who_takes_too_long_is_left_out_and_the_period_kept() -> None:
    seen = recorded(0.0, 5.0, interval_s=0.5, duration_s=2.0)
    assert moments(seen) == [0.0, 0.5, 1.0, 1.5]
    assert [bool(reading.gpus) for _, reading in seen] == [True, False, True, True]


def test_it_ends_when_it_is_told_to() -> None:
    assert len(recorded(duration_s=None, take=lambda stop: stop.set())) == 1


def test_a_question_takes_less_than_a_period_within_reason() -> None:
    assert (timeout_of(1.0), timeout_of(0.05), timeout_of(60.0)) == (0.8, 0.2, 2.0)


def test_engine_and_gateway_are_read_beside_the_cards() -> None:
    pages = {
        "engine": "vllm:num_requests_running 3\nvllm:kv_cache_usage_perc 0.5\n",
        "gateway": "sluice_in_flight 4\n",
    }

    def answer(request: httpx.Request) -> httpx.Response:
        page = pages.get(request.url.host)
        if page is None:
            return httpx.Response(503)
        return httpx.Response(200, stream=httpx.ByteStream(page.encode()))

    async def scenario() -> list[Reading]:
        seen: list[Reading] = []
        transport = httpx.MockTransport(answer)
        async with (
            Probe("http://engine", transport=transport) as engine,
            Probe("http://gateway", transport=transport) as gateway,
        ):
            sources = Sources(gpus=NoGpus(), engine=engine, gateway=gateway)

            def take(reading: Reading) -> None:
                seen.append(reading)
                pages.clear()  # both go away

            await record(sources, 0.01, 0.02, asyncio.Event(), take)
        return seen

    first, second = asyncio.run(scenario())[:2]
    assert (first.engine_up, first.engine.running, first.gateway.in_flight) == (True, 3, 4)
    assert (second.engine_up, second.engine.running, second.gateway.in_flight) == (
        False,
        None,
        None,
    )

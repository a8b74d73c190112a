"""The gateway under load in front of an engine: what the engine sees of it."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import httpx

from proxy.vllm.metrics_page import parse_metrics_page
from tests.support.engine_process import MAX_NUM_SEQS, EngineProcess
from tests.support.engine_requests import LooseRequest, completion, json_events
from tests.support.gateway_process import GatewayProcess, gateway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    import pytest

    from tests.support.engine_requests import Json

SEATS = 7  # floor(8 x 0.9)
PLACES = 4
LONG = 1900


@asynccontextmanager
async def in_front_of(engine: EngineProcess, **settings: object) -> AsyncIterator[GatewayProcess]:
    limits = {"max_num_seqs": MAX_NUM_SEQS, "max_queue_depth": PLACES, "queue_timeout": 60}
    async with gateway(engine.url, **{**limits, **settings}) as sluice:
        yield sluice


async def become(state: Callable[[], Awaitable[bool]], what: str, within_s: float = 10.0) -> None:
    """Waits for a state of another process; fails with `what` when it does not come."""
    try:
        async with asyncio.timeout(within_s):
            while not await state():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not within {within_s:g} s: {what}") from None


@dataclass
class Watch:
    """What the engine and the gateway say of themselves, again and again."""

    engine: EngineProcess
    sluice: GatewayProcess
    waiting_inside: list[int] = field(default_factory=list)
    running_inside: list[int] = field(default_factory=list)
    queue_depth: list[float] = field(default_factory=list)

    async def look(self) -> None:
        while True:
            self.waiting_inside.append(await asyncio.to_thread(lambda: self.engine.waiting))
            self.running_inside.append(await asyncio.to_thread(lambda: self.engine.running))
            self.queue_depth.append(await self.sluice.metric("sluice_queue_depth"))
            await asyncio.sleep(0.02)


@asynccontextmanager
async def watched(engine: EngineProcess, sluice: GatewayProcess) -> AsyncIterator[Watch]:
    watch = Watch(engine, sluice)
    looking = asyncio.create_task(watch.look())
    try:
        yield watch
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def post(client: httpx.AsyncClient, body: Json) -> httpx.Response:
    return await client.post("/v1/completions", json=body)


def send(sluice: GatewayProcess, body: Json) -> LooseRequest:
    return LooseRequest(sluice.url, "/v1/completions", body)


def client_of(sluice: GatewayProcess) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=sluice.url, timeout=120.0, trust_env=False)


def test_in_an_overload_nothing_ever_waits_inside_the_engine(
    engine: EngineProcess, request: pytest.FixtureRequest
) -> None:
    on_the_real_one = request.node.get_closest_marker("vllm") is not None

    async def scenario() -> None:
        async with (
            in_front_of(engine) as sluice,
            client_of(sluice) as client,
            watched(engine, sluice) as watch,
        ):
            answers = await asyncio.gather(*(post(client, completion(200)) for _ in range(20)))
            statuses = [answer.status_code for answer in answers]
            assert statuses.count(200) == SEATS + PLACES
            refused = [answer for answer in answers if answer.status_code == 503]
            assert len(refused) == 20 - SEATS - PLACES
            assert {answer.json()["error"]["code"] for answer in refused} == {"queue_full"}
            assert await sluice.metric("sluice_shed_total", reason="queue_full") == len(refused)
        assert max(watch.queue_depth) == PLACES
        assert max(watch.running_inside) == SEATS
        if on_the_real_one:
            assert set(watch.waiting_inside) == {0}
        else:  # its page is of this moment, not of the last step: a newcomer waits for the next
            assert not any(one and next_ for one, next_ in pairwise(watch.waiting_inside))
        assert len(watch.waiting_inside) > 10

    asyncio.run(scenario())


def test_without_the_gateway_the_same_load_waits_inside(engine: EngineProcess) -> None:
    """What the test above would show if it could not fail."""

    async def scenario() -> None:
        async with httpx.AsyncClient(base_url=engine.url, timeout=120.0, trust_env=False) as client:
            load = [asyncio.create_task(post(client, completion(200))) for _ in range(20)]

            async def piled_up() -> bool:
                return await asyncio.to_thread(lambda: engine.waiting) > 0

            await become(piled_up, "requests that wait inside the engine")
            assert {answer.status_code for answer in await asyncio.gather(*load)} == {200}

    asyncio.run(scenario())


async def idle_again(engine: EngineProcess, sluice: GatewayProcess) -> None:
    """Within the second in which an abort must have gone all the way."""

    async def is_idle() -> bool:
        in_flight = await sluice.metric("sluice_in_flight")
        return in_flight == 0 == await asyncio.to_thread(lambda: engine.running)

    await become(is_idle, "an idle gateway and engine", within_s=1.0)


async def aborts(engine: EngineProcess, count: int) -> None:
    async def counted() -> bool:
        return await asyncio.to_thread(lambda: engine.aborted) == count

    await become(counted, f"{count} aborts in the engine", within_s=1.0)


async def inside(engine: EngineProcess, count: int) -> None:
    def counted() -> float:
        # One page for both figures: a request moves from one to the other between two.
        seen = parse_metrics_page(engine.metrics_page())
        return (seen.running or 0) + (seen.waiting or 0)

    async def there() -> bool:
        return await asyncio.to_thread(counted) == count

    await become(there, f"{count} inside the engine")


def test_a_client_that_leaves_a_stream_aborts_it_in_the_engine(engine: EngineProcess) -> None:
    async def scenario() -> None:
        before = engine.aborted
        async with in_front_of(engine) as sluice:
            with closing(send(sluice, completion(LONG, stream=True))) as request:
                await asyncio.to_thread(request.read_until, b"data: ")
            await idle_again(engine, sluice)
            await aborts(engine, before + 1)

    asyncio.run(scenario())


def test_a_client_that_leaves_while_it_waits_for_the_whole_aborts_it_in_the_engine(
    engine: EngineProcess,
) -> None:
    async def scenario() -> None:
        before = engine.aborted
        async with in_front_of(engine) as sluice:
            with closing(send(sluice, completion(LONG))):
                await inside(engine, 1)
            await idle_again(engine, sluice)
            await aborts(engine, before + 1)

    asyncio.run(scenario())


def test_clients_that_leave_while_their_prompts_are_computed_abort_them_in_the_engine(
    engine: EngineProcess,
) -> None:
    async def scenario() -> None:
        aborted_before = engine.aborted
        prompts = [[7 + number] * LONG for number in range(SEATS)]
        async with in_front_of(engine) as sluice:
            with ExitStack() as stack:
                for prompt in prompts:
                    stack.enter_context(closing(send(sluice, completion(140, prompt=prompt))))
                # Some still wait inside: a step takes only so many prompt tokens.
                await inside(engine, SEATS)
            await idle_again(engine, sluice)
            await aborts(engine, aborted_before + SEATS)

    asyncio.run(scenario())


def test_a_client_that_leaves_our_queue_never_reaches_the_engine(engine: EngineProcess) -> None:
    async def scenario() -> None:
        before = engine.aborted
        async with in_front_of(engine) as sluice:
            with ExitStack() as stack:
                for _ in range(SEATS):
                    stack.enter_context(closing(send(sluice, completion(LONG))))
                await inside(engine, SEATS)
                with closing(send(sluice, completion(LONG))):
                    await sluice.until_metric("sluice_queue_depth", 1)
                await sluice.until_metric("sluice_queue_depth", 0, within_s=1.0)
                assert engine.aborted == before
            await idle_again(engine, sluice)
            await aborts(engine, before + SEATS)

    asyncio.run(scenario())


def test_sigterm_under_load_finishes_what_runs_and_answers_what_waits(
    engine: EngineProcess,
) -> None:
    async def scenario() -> None:
        aborted_before = engine.aborted
        async with in_front_of(engine) as sluice, client_of(sluice) as client:
            body = completion(500, stream=True, stream_options={"include_usage": True})
            streams = [asyncio.create_task(post(client, body)) for _ in range(SEATS)]
            await inside(engine, SEATS)
            waiters = [asyncio.create_task(post(client, completion(5))) for _ in range(PLACES)]
            await sluice.until_metric("sluice_queue_depth", PLACES)
            sluice.terminate()
            refused = await asyncio.gather(*waiters)
            assert not any(stream.done() for stream in streams)
            finished = await asyncio.gather(*streams)
            await asyncio.wait_for(sluice.process.wait(), 10.0)
        assert {answer.json()["error"]["code"] for answer in refused} == {"draining"}
        assert {answer.status_code for answer in refused} == {503}
        usages = [json_events(answer.text)[-1]["usage"] for answer in finished]
        assert [usage["completion_tokens"] for usage in usages] == [500] * SEATS
        assert sluice.exit_code == 0
        assert engine.aborted == aborted_before

    asyncio.run(scenario())

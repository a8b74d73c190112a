"""Ten thousand clients that leave at random moments, several hundred at once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import uvloop

from tests.support.capacity_probe import probe_capacity
from tests.support.gateway_process import eventually, gateway
from tests.support.raw_client import RawClient, request_bytes
from tests.support.scripted_upstream import ScriptedUpstream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from tests.support.gateway_process import GatewayProcess
    from tests.support.raw_client import Farewell
    from tests.support.scripted_upstream import Exchange

    Phase = Callable[["Crowd", RawClient, str], Awaitable[None]]

ABORTS = 10_000
AT_ONCE = 400
SEATS = 64
READ_OUT_OF_ORDER = 4
NOTICED_WITHIN_S = 1.0
FAREWELLS: tuple[Farewell, Farewell] = ("fin", "rst")


@pytest.mark.alone("hundreds of clients at once, and each second counts")
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_ten_thousand_aborts_in_every_phase_leave_nothing_behind() -> None:
    async def scenario() -> None:
        crowd = Crowd(random.Random(20))
        settings = {"queue_timeout": 60, "log_level": "warning"}
        async with (
            ScriptedUpstream(crowd.answer) as upstream,
            gateway(
                upstream.url, max_in_flight=SEATS, max_queue_depth=AT_ONCE, **settings
            ) as sluice,
        ):
            await probe_capacity(sluice, upstream, SEATS)
            descriptors = await resting_descriptors(sluice, upstream)
            upstream.forget()

            await crowd.come_and_leave(sluice.port)
            await sluice.until_idle()
            await upstream.until(lambda: upstream.inflight == 0)
            # Others had to wait. An abort and the request that takes its seat reach the engine over
            # two connections, and it may read the later one first.
            assert SEATS <= upstream.peak <= SEATS + READ_OUT_OF_ORDER
            crowd.was_noticed_in_time(upstream)
            await crowd.hit_every_phase(sluice, upstream)

            await eventually(lambda: sluice.sockets_towards(upstream.port) == 0, 10)
            await eventually(lambda: sluice.open_descriptors() == descriptors, 10)
            await probe_capacity(sluice, upstream, SEATS)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())


async def resting_descriptors(sluice: GatewayProcess, upstream: ScriptedUpstream) -> int:
    """Once no client is connected, and the engine only now and then for a health check."""
    await eventually(lambda: sluice.sockets_towards(upstream.port) == 0, 10)
    found = []
    for _ in range(20):
        found.append(sluice.open_descriptors())
        await asyncio.sleep(0.02)
    return min(found)


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Crowd:
    """Clients that leave, each in one phase of its request, and the engine that they ask.

    A client's name begins with its phase. `signals`: the engine has got to where a client waits
    for it.
    """

    rng: random.Random
    left_at: dict[str, float] = field(default_factory=dict)
    phases: Counter[str] = field(default_factory=Counter)
    signals: dict[str, asyncio.Event] = field(default_factory=dict)
    worst_lag_s: float = 0.0

    async def come_and_leave(self, port: int) -> None:
        numbers = iter(range(ABORTS))
        watching = asyncio.create_task(self._watch_our_own_lag())
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._one_after_the_other(port, numbers))
        watching.cancel()

    async def _one_after_the_other(self, port: int, numbers: Iterator[int]) -> None:
        for number in numbers:
            phase = self.rng.choice(list(PHASES))
            self.phases[phase] += 1
            name = f"{phase}-{number}"
            self.signals[name] = asyncio.Event()
            async with await RawClient.connect(port) as client:
                await PHASES[phase](self, client, name)
                self.left_at[name] = now()
                client.leave(self.rng.choice(FAREWELLS))

    async def _watch_our_own_lag(self) -> None:
        """What this process is late by is not the gateway's fault."""
        while True:
            due = now() + 0.01
            await asyncio.sleep(0.01)
            self.worst_lag_s = max(self.worst_lag_s, now() - due)

    async def pause(self, most_s: float) -> None:
        await asyncio.sleep(self.rng.uniform(0, most_s))

    def request(self, name: str, body: bytes = b"{}") -> bytes:
        return request_bytes(body=body, headers={"x-client-id": name})

    # The engine: what nobody breaks off goes on for ever.

    async def answer(self, exchange: Exchange) -> None:
        name = exchange.request.client_id or ""
        phase = phase_of(name)
        if phase == "keep_alive" or not name:
            exchange.respond(b'{"ok": true}')
            return
        if phase in ("between_chunks", "last_chunk"):
            await self._stream(exchange, 3 if phase == "last_chunk" else 1_000_000)
        self.signals[name].set()
        if phase == "last_chunk":
            exchange.chunk(b"data: [DONE]\n\n")
            await self.pause(0.005)
            exchange.end_chunked()
        else:
            await asyncio.Event().wait()

    async def _stream(self, exchange: Exchange, events: int) -> None:
        exchange.start_chunked()
        for number in range(events):
            exchange.chunk(b'data: {"n": %d}\n\n' % number)
            await self.pause(0.05)

    # What must hold in the end.

    def was_noticed_in_time(self, upstream: ScriptedUpstream) -> None:
        within_s = NOTICED_WITHIN_S + self.worst_lag_s
        for request in upstream.seen:
            left_at = self.left_at[str(request.client_id)]
            assert request.ended_at is not None
            assert request.at - left_at < within_s, f"sent for nobody: {request.client_id}"
            assert request.ended_at - left_at < within_s, f"not aborted: {request.client_id}"

    async def hit_every_phase(self, sluice: GatewayProcess, upstream: ScriptedUpstream) -> None:
        """Else the clients were not where they were meant to be, and nothing was shown."""
        tenth = ABORTS / 10
        assert self.phases.total() == len(self.left_at) == ABORTS
        assert min(self.phases.values()) > tenth
        seen = Counter(phase_of(str(request.client_id)) for request in upstream.seen)
        aborted = Counter(
            phase_of(str(request.client_id)) for request in upstream.seen if request.aborted
        )
        assert not seen["head"]
        assert not seen["body"]
        assert seen["queued"] == aborted["queued"] < self.phases["queued"]
        for phase in ("engine_silent", "between_chunks"):
            assert seen[phase] == aborted[phase] == self.phases[phase]
        assert seen["last_chunk"] == self.phases["last_chunk"] > aborted["last_chunk"] > 0
        assert seen["keep_alive"] >= self.phases["keep_alive"]
        left_the_queue = await sluice.metric("sluice_queue_wait_seconds_count", outcome="abandoned")
        assert left_the_queue > tenth / 2
        assert set(+await sluice.outcomes()) == {"ok", "abandoned"}


def phase_of(name: str) -> str:
    return name.partition("-")[0]


# Each returns at the moment at which the client leaves.


async def in_the_head(crowd: Crowd, client: RawClient, name: str) -> None:
    whole = crowd.request(name)
    client.send(whole[: crowd.rng.randrange(1, len(whole) - 4)])
    await crowd.pause(0.1)


async def in_the_body(crowd: Crowd, client: RawClient, name: str) -> None:
    body = b"x" * crowd.rng.choice([10, 1_000, 100_000])
    whole = crowd.request(name, body)
    client.send(whole[: len(whole) - crowd.rng.randrange(1, len(body))])
    await crowd.pause(0.1)


async def in_the_queue(crowd: Crowd, client: RawClient, name: str) -> None:
    client.send(crowd.request(name))
    await crowd.pause(0.8)


async def before_the_answer(crowd: Crowd, client: RawClient, name: str) -> None:
    client.send(crowd.request(name))
    await crowd.signals[name].wait()
    await crowd.pause(0.3)


async def between_two_chunks(crowd: Crowd, client: RawClient, name: str) -> None:
    client.send(crowd.request(name))
    answer = await client.head()
    for _ in range(crowd.rng.randrange(1, 4)):
        await client.chunk(answer)
    await crowd.pause(0.2)


async def at_the_last_chunk(crowd: Crowd, client: RawClient, name: str) -> None:
    """Either when it comes, or when the engine is about to send it."""
    client.send(crowd.request(name))
    if crowd.rng.random() < 0.5:
        await crowd.signals[name].wait()
        return
    answer = await client.head()
    while b"[DONE]" not in await client.chunk(answer):
        pass


async def between_two_requests(crowd: Crowd, client: RawClient, name: str) -> None:
    """Idle, in the head of the next request, or right after it."""
    assert (await client.ask(crowd.request(name))).status == 200
    await crowd.pause(0.01)
    following = crowd.request(name)
    client.send(following[: crowd.rng.choice([0, 20, len(following)])])
    await crowd.pause(0.005)


PHASES: dict[str, Phase] = {
    "head": in_the_head,
    "body": in_the_body,
    "queued": in_the_queue,
    "engine_silent": before_the_answer,
    "between_chunks": between_two_chunks,
    "last_chunk": at_the_last_chunk,
    "keep_alive": between_two_requests,
}

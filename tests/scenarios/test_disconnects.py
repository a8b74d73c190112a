"""Clients that leave: in the queue, before the engine's headers, between its chunks; one by one, in
crowds, and at any moment."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from tests.support.gateway_in_memory import gateway, leave
from tests.support.scripted_app import Hold, ScriptedApp, after, answer, silent, stream
from tests.support.virtual_time import now, run, settle

if TYPE_CHECKING:
    from tests.support.asgi_transport import AsgiExchange, Upload
    from tests.support.gateway_in_memory import Sluice
    from tests.support.scripted_app import Call, Handler

NOTICED_WITHIN_S = 0.1


@pytest.mark.parametrize("stream_it", [True, False])
@pytest.mark.parametrize("left_at", [0.0, 0.001, 0.005, 0.019, 0.02, 0.021, 0.05, 0.3, 10.0])
def test_a_client_that_leaves_before_the_headers_closes_the_engines_exchange(
    left_at: float, stream_it: bool
) -> None:
    async def scenario() -> None:
        engine = ScriptedApp(after(20.0))
        async with gateway(engine, max_in_flight=2) as sluice:
            exchange = sluice.start({"stream": stream_it})
            asyncio.get_running_loop().call_at(left_at, exchange.disconnect)
            await exchange.ended()
            assert now() <= left_at + NOTICED_WITHIN_S
            await settle()
            assert engine.aborts == len(engine.seen) == len(sluice.upstream.sent)
            assert sluice.outcomes() == {"abandoned": 1}
            await sluice.probe_capacity(engine)

    run(scenario())


@pytest.mark.parametrize("chunks", [1, 2, 7])
def test_a_client_that_leaves_between_chunks_closes_the_engines_exchange(chunks: int) -> None:
    async def scenario() -> None:
        engine = ScriptedApp(stream(100, interval_s=0.1))
        async with gateway(engine, max_in_flight=2) as sluice:
            exchange = sluice.start({"stream": True})
            for _ in range(chunks):
                assert await exchange.next_chunk()
            left_at = now()
            await leave(exchange)
            assert now() <= left_at + NOTICED_WITHIN_S
            await settle()
            assert engine.aborts == 1
            assert sluice.outcomes() == {"abandoned": 1}
            assert sluice.records[0].response_bytes == 16 * chunks
            await sluice.probe_capacity(engine)

    run(scenario())


def test_a_client_that_leaves_while_a_silent_engine_thinks_is_noticed() -> None:
    async def scenario() -> None:
        async def one_token_then_silence(call: Call) -> None:
            await call.start()
            await call.chunk(b"data: 1\n\n")
            await silent(call)

        engine = ScriptedApp(one_token_then_silence)
        async with gateway(engine) as sluice:
            exchange = sluice.start({"stream": True})
            await exchange.next_chunk()
            await asyncio.sleep(60)
            await leave(exchange)
            assert now() <= 60 + NOTICED_WITHIN_S
            await sluice.probe_capacity(engine)

    run(scenario())


def test_two_hundred_streams_dropped_after_their_first_chunk_leave_nothing_behind() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(stream(1000, interval_s=0.1))
        async with gateway(engine, max_in_flight=2) as sluice:
            for _ in range(200):
                exchange = sluice.start({"stream": True})
                await exchange.next_chunk()
                await leave(exchange)
            await settle()
            assert engine.aborts == 200
            assert sluice.outcomes() == {"abandoned": 200}
            await sluice.probe_capacity(engine)

    run(scenario())


def test_those_who_leave_the_queue_are_never_sent_to_the_engine() -> None:
    async def scenario() -> None:
        hold = Hold()
        engine = ScriptedApp(hold)
        async with gateway(engine, max_in_flight=1, max_queue_depth=9) as sluice:
            (held,) = await sluice.hold_seats(1)
            queued = [sluice.start(client_id=str(number)) for number in range(1, 6)]
            await asyncio.sleep(0.5)
            assert sluice.queue_depth == 5
            queued[1].disconnect()
            queued[3].disconnect()
            await settle()
            assert (sluice.queue_depth, now()) == (3, 0.5)
            hold.release()
            for exchange in [held, *(queued[index] for index in (0, 2, 4))]:
                assert (await exchange.response()).status == 200
            assert engine.seen_ids() == ["held 0", "1", "3", "5"]
            assert sluice.outcomes() == {"ok": 4, "abandoned": 2}
            await sluice.probe_capacity(engine)

    run(scenario())


def test_one_who_leaves_a_full_queue_makes_room_at_once() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(silent)
        async with gateway(engine, max_in_flight=1, max_queue_depth=4) as sluice:
            held = await sluice.hold_seats(5)
            await asyncio.sleep(0.5)
            assert (await sluice.ask()).status == 503
            held[2].disconnect()
            await settle()
            newcomer = sluice.start()
            await settle()
            assert (sluice.queue_depth, now()) == (4, 0.5)
            await leave(*held, newcomer)

    run(scenario())


def test_a_hundred_clients_that_leave_in_one_step_leave_nothing_behind() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(stream(100, interval_s=0.1))
        async with gateway(engine, max_in_flight=50, max_queue_depth=50) as sluice:
            exchanges = [sluice.start({"stream": True}) for _ in range(100)]
            await asyncio.sleep(1.05)
            await leave(*exchanges)
            await settle()
            assert engine.aborts == 50
            assert sluice.outcomes() == {"abandoned": 100}
            await sluice.probe_capacity(engine)

    run(scenario())


def test_a_client_that_leaves_while_it_uploads_is_forgotten() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(answer)
        async with gateway(engine) as sluice:
            exchanges = [sluice.start([b"x" * 1000, 100.0, b"x"]) for _ in range(10)]
            await asyncio.sleep(1)
            await leave(*exchanges)
            assert now() == 1
            assert sluice.outcomes() == {"abandoned": 10}
            assert engine.seen == []

    run(scenario())


def test_a_client_of_an_open_route_that_leaves_closes_the_engines_exchange_too() -> None:
    async def scenario() -> None:
        engine = ScriptedApp(silent)
        async with gateway(engine) as sluice:
            exchange = sluice.start(b"", method="GET", target=b"/v1/models")
            await asyncio.sleep(1)
            await leave(exchange)
            await settle()
            assert engine.aborts == 1
            assert sluice.outcomes() == {"abandoned": 1}

    run(scenario())


def test_aborts_are_nobodys_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        engine = ScriptedApp(stream(100, interval_s=0.1))
        async with gateway(engine, max_in_flight=10, max_queue_depth=90) as sluice:
            exchanges = [sluice.start({"stream": True}) for _ in range(50)]
            await asyncio.sleep(1)
            await leave(*exchanges)
            assert sluice.outcomes() == {"abandoned": 50}
            assert sluice.sheds() == {}
            assert {record.reason for record in sluice.records} == {""}

    run(scenario())
    assert caplog.records == []


@pytest.mark.parametrize("seed", range(20))
def test_a_free_seat_a_timeout_and_an_abort_at_once_have_one_outcome(seed: int) -> None:
    """Each within 3 ms of the others, in every order; afterwards all seats are there."""

    async def scenario() -> None:
        dice = random.Random(seed)
        hold = Hold()
        engine = ScriptedApp(hold)
        async with gateway(engine, max_in_flight=1, max_queue_depth=5, queue_timeout=1) as sluice:
            for _ in range(25):
                (held,) = await sluice.hold_seats(1)
                began_at = now()
                queued = [sluice.start() for _ in range(3)]
                loop = asyncio.get_running_loop()
                for exchange in queued:
                    loop.call_at(began_at + 1 + dice.uniform(-0.003, 0.003), exchange.disconnect)
                loop.call_at(began_at + 1 + dice.uniform(-0.003, 0.003), held.disconnect)
                await asyncio.gather(*(exchange.ended() for exchange in [held, *queued]))
            assert sluice.outcomes().total() == 100
            await sluice.probe_capacity(engine)

    run(scenario())


# At any moment ---------------------------------------------------------------------------------


_STAYS_S = (0, 0.001, 0.02, 0.1, 0.5, 1, 2, 4)


class Crowd:
    """Clients that come, and leave at a random moment of theirs, or stay to the end."""

    def __init__(self, sluice: Sluice, seed: int) -> None:
        self._sluice = sluice
        self._dice = random.Random(seed)
        self._tasks: list[asyncio.Task[None]] = []
        self.phases: dict[str, int] = {}

    async def come(self, count: int, over_s: float) -> None:
        for _ in range(count):
            self._tasks.append(asyncio.create_task(self._visit()))
            await asyncio.sleep(self._dice.expovariate(count / over_s))
        await asyncio.gather(*self._tasks)

    async def _visit(self) -> None:
        exchange = self._sluice.start(self._body(), client_id="one of many")
        await asyncio.sleep(
            self._dice.choice([0, 0.001, 0.02, 0.1, 0.5, 1, 2, 4]) * self._dice.random()
        )
        phase = self._phase(exchange)
        self.phases[phase] = self.phases.get(phase, 0) + 1
        if self._dice.random() < 0.1:
            exchange.stop_reading()
            await asyncio.sleep(self._dice.random())
        exchange.disconnect()
        await exchange.ended()

    def _body(self) -> Upload | dict[str, object]:
        if self._dice.random() < 0.2:
            return [b'{"stream":', self._dice.random(), b" true", self._dice.random(), b"}"]
        return {"stream": True, "n": self._dice.choice([1, 1, 1, 2, 3])}

    def _phase(self, exchange: AsgiExchange) -> str:
        if exchange.completed:
            return "answered"
        if not exchange.upload_is_done:
            return "uploading"
        if exchange.has_head:
            return "streaming"
        return "waiting"


def misbehaving(seed: int) -> Handler:
    """An engine that answers at random times, sometimes badly, sometimes not at all."""
    dice = random.Random(seed)

    async def handler(call: Call) -> None:
        await asyncio.sleep(dice.expovariate(5))
        kind = dice.random()
        if kind < 0.1:
            await call.respond(503)
        elif kind < 0.15:
            await stream(3, interval_s=dice.random() / 5, breaks_off=True)(call)
        else:
            await stream(dice.randrange(1, 20), interval_s=dice.random() / 5)(call)

    return handler


@pytest.mark.parametrize("seed", range(4))
def test_of_ten_thousand_random_aborts_nothing_is_left(seed: int) -> None:
    """2,500 for each seed, in every phase of a request's life."""

    async def scenario() -> None:
        engine = ScriptedApp(misbehaving(seed))
        async with gateway(
            engine, max_in_flight=8, max_queue_depth=16, queue_timeout=1.5
        ) as sluice:
            crowd = Crowd(sluice, seed)
            await crowd.come(2500, over_s=120)
            await asyncio.sleep(NOTICED_WITHIN_S)
            assert (sluice.in_flight, sluice.queue_depth) == (0, 0)
            assert (engine.in_flight, sluice.upstream.in_flight) == (0, 0)
            assert sluice.upstream.peak <= 8
            assert engine.aborts == len(sluice.upstream.aborted_at) > 100
            assert min(crowd.phases.values()) > 50, crowd.phases
            assert set(crowd.phases) == {"answered", "uploading", "streaming", "waiting"}
            outcomes = sluice.outcomes()
            assert outcomes.total() == 2500
            assert outcomes["abandoned"] > 500
            await sluice.probe_capacity(engine)

    run(scenario())

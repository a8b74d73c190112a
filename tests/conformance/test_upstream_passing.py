"""A body that is passed to a taker piece by piece, as the relay has it."""

from __future__ import annotations

import asyncio

import pytest

from proxy.upstream.errors import UpstreamClosedError, UpstreamTimeoutError
from proxy.upstream.port import Take, Upstream, UpstreamTimeouts
from tests.support.scripted_upstream import Exchange, ScriptedUpstream
from tests.support.upstream_clients import UpstreamClient, ask, every_client


class Takes(list[tuple[bytes, bool]]):
    """What was taken. `full_at`: the number of pieces after which there is no room."""

    def __init__(self, full_at: int | None = None) -> None:
        super().__init__()
        self.full_at = full_at
        self.came = asyncio.Event()
        self.has_room = asyncio.Event()
        self.rooms = 0

    def take(self, data: bytes, is_last: bool) -> bool:
        self.append((data, is_last))
        self.came.set()
        return len(self) != self.full_at

    async def room(self) -> None:
        self.rooms += 1
        await self.has_room.wait()

    async def next(self) -> None:
        await self.came.wait()
        self.came.clear()

    @property
    def body(self) -> bytes:
        return b"".join(data for data, _ in self)


async def passed(upstream: Upstream, take: Take) -> None:
    """One whole exchange, with a taker that always has room."""
    async with upstream.exchange(ask()) as response:
        await response.pass_to(take, _room)


async def _room() -> None:
    raise AssertionError("there was room")


class Stepwise:
    """Streams one event each time the test asks for it; None ends the stream, "die" breaks it."""

    def __init__(self) -> None:
        self.steps: asyncio.Queue[bytes | str | None] = asyncio.Queue()

    async def __call__(self, exchange: Exchange) -> None:
        exchange.start_chunked()
        while isinstance(event := await self.steps.get(), bytes):
            exchange.chunk(event)
        if event == "die":
            exchange.reset()
        else:
            exchange.end_chunked()


@every_client
def test_every_event_is_taken_as_it_comes_and_the_last_piece_is_known(
    client: UpstreamClient,
) -> None:
    async def scenario() -> None:
        stepwise, takes = Stepwise(), Takes()
        async with (
            client.facing(ScriptedUpstream(stepwise)) as (_, upstream),
            upstream.exchange(ask()) as response,
        ):
            passing = asyncio.create_task(response.pass_to(takes.take, takes.room))
            for number in range(20):
                stepwise.steps.put_nowait(b"data: %d\n\n" % number)
                await takes.next()
                assert takes[number] == (b"data: %d\n\n" % number, False)
            stepwise.steps.put_nowait(None)
            await passing
            assert [is_last for _, is_last in takes] == [False] * 20 + [True]

    client.run(scenario())


@every_client
@pytest.mark.parametrize("body", [b"", b"{}", b"x" * 1_000_000])
def test_a_whole_body_is_taken_whatever_its_size(client: UpstreamClient, body: bytes) -> None:
    async def scenario() -> None:
        async def answer(exchange: Exchange) -> None:
            exchange.respond(body)

        takes = Takes()
        async with client.facing(ScriptedUpstream(answer)) as (_, upstream):
            for _ in range(2):  # over one connection
                takes.clear()
                async with upstream.exchange(ask()) as response:
                    await response.pass_to(takes.take, takes.room)
                assert takes.body == body
                assert [is_last for _, is_last in takes].index(True) == len(takes) - 1

    client.run(scenario())


@every_client
def test_a_taker_without_room_gets_nothing_until_it_has_some(client: UpstreamClient) -> None:
    async def scenario() -> None:
        stepwise, takes = Stepwise(), Takes(full_at=1)
        async with (
            client.facing(ScriptedUpstream(stepwise)) as (_, upstream),
            upstream.exchange(ask()) as response,
        ):
            passing = asyncio.create_task(response.pass_to(takes.take, takes.room))
            stepwise.steps.put_nowait(b"one")
            await takes.next()
            stepwise.steps.put_nowait(b"two")
            stepwise.steps.put_nowait(None)
            await asyncio.sleep(0.05)
            assert takes == [(b"one", False)]
            assert takes.rooms == 1
            takes.has_room.set()
            await passing
            assert takes.body == b"onetwo"

    client.run(scenario())


@every_client
def test_an_engine_that_dies_is_told_after_what_it_had_sent(client: UpstreamClient) -> None:
    async def scenario() -> None:
        stepwise, takes = Stepwise(), Takes()
        async with client.facing(ScriptedUpstream(stepwise)) as (_, upstream):
            passing = asyncio.create_task(passed(upstream, takes.take))
            stepwise.steps.put_nowait(b"one")
            await takes.next()
            stepwise.steps.put_nowait("die")
            with pytest.raises(UpstreamClosedError):
                await passing
            assert takes == [(b"one", False)]

    client.run(scenario())


@every_client
def test_silence_between_two_pieces_is_bounded(client: UpstreamClient) -> None:
    async def scenario() -> None:
        stepwise, takes = Stepwise(), Takes()
        timeouts = UpstreamTimeouts(idle_s=0.2)
        async with client.facing(ScriptedUpstream(stepwise), timeouts) as (_, upstream):
            for number in range(3):
                stepwise.steps.put_nowait(b"%d" % number)
            with pytest.raises(UpstreamTimeoutError):
                await passed(upstream, takes.take)
            assert takes.body == b"012"

    client.run(scenario())


@every_client
def test_what_the_taker_raises_comes_out_and_the_connection_is_closed(
    client: UpstreamClient,
) -> None:
    async def scenario() -> None:
        stepwise = Stepwise()

        def refuse(_data: bytes, _is_last: bool) -> bool:
            raise RuntimeError("no")

        engine = ScriptedUpstream(stepwise)
        async with client.facing(engine) as (_, upstream):
            passing = asyncio.create_task(passed(upstream, refuse))
            await asyncio.sleep(0.02)
            stepwise.steps.put_nowait(b"one")
            with pytest.raises(RuntimeError, match="no"):
                await passing
            await engine.until(lambda: engine.inflight == 0)

    client.run(scenario())


@every_client
def test_who_is_cancelled_while_it_passes_takes_no_more(client: UpstreamClient) -> None:
    async def scenario() -> None:
        stepwise, takes = Stepwise(), Takes()
        engine = ScriptedUpstream(stepwise)
        async with client.facing(engine) as (_, upstream):
            async with upstream.exchange(ask()) as response:
                passing = asyncio.create_task(response.pass_to(takes.take, takes.room))
                stepwise.steps.put_nowait(b"one")
                await takes.next()
                passing.cancel()
                await asyncio.wait([passing])
                stepwise.steps.put_nowait(b"two")
                await asyncio.sleep(0.02)
            assert takes == [(b"one", False)]
            await engine.until(lambda: engine.inflight == 0)

    client.run(scenario())

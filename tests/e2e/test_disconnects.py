"""Clients that leave: the engine hears of it, and their seats and places come back.

Every test ends with the capacity probe. Field cases R01 to R14; the races inside the core are
proven without sockets in tests/properties and tests/scenarios.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.support.raw_client import RawClient, ask_once, request_bytes
from tests.support.scripted_upstream import Hold, silent, sse_stream
from tests.support.stand import Stand, on_the_stand, standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.raw_client import Farewell
    from tests.support.scripted_upstream import Exchange, ScriptedUpstream

NOTICED_WITHIN_S = 1.0
CLIENT_KEY = {"Authorization": "Bearer client-key"}
BOTH_SEATS = {"prompt": "x", "n": 2}
FAREWELLS: list[Farewell] = ["fin", "rst"]


@pytest.fixture(
    scope="module", params=["features-off", "features-on", "httpx-client"], name="stand"
)
def _stand(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stand]:
    """R03: whether a client has left must not depend on what else is switched on."""
    size = {"max_in_flight": 2, "max_queue_depth": 4, "queue_timeout": 5}
    trace_file = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    variants = {
        "features-off": standing(**size, log_level="error"),
        "features-on": standing(
            CLIENT_KEY,
            **size,
            api_keys="app:client-key",
            upstream_api_key="engine-key",
            trace_file=trace_file,
            log_level="debug",
            total_timeout=300,
            max_seats_per_request=2,
            expose="GET /exposed",
        ),
        "httpx-client": standing(**size, upstream_client="httpx", log_format="console"),
    }
    with variants[request.param] as stand:
        yield stand


async def noticed(upstream: ScriptedUpstream, client_id: str, left_at: float) -> None:
    """The engine sees each exchange of this client end within the promised time."""
    requests = upstream.seen_by(client_id)
    await upstream.until(lambda: all(request.ended_at for request in requests))
    for request in requests:
        assert request.ended_at is not None
        assert request.ended_at - left_at < NOTICED_WITHIN_S


def now() -> float:
    return asyncio.get_running_loop().time()


# While the answer is on its way.


@on_the_stand
async def test_a_stream_whose_client_leaves_is_aborted_and_gives_its_seat_back(
    stand: Stand,
) -> None:
    """R01"""
    stand.upstream.handler = sse_stream(events=1000, interval_s=0.1)

    async def open_read_leave(number: int) -> None:
        async with await stand.client() as client:
            client.send(stand.request(body={"stream": True}, client_id=f"c{number}"))
            await client.chunk(await client.head())
            left_at = now()
            client.leave(FAREWELLS[number % 2])
        await noticed(stand.upstream, f"c{number}", left_at)

    async def lane(first: int) -> None:
        for number in range(first, 200, stand.seats):
            await open_read_leave(number)

    await asyncio.gather(*(lane(first) for first in range(stand.seats)))
    assert len(stand.upstream.seen) == stand.upstream.aborts == 200
    assert await stand.outcomes() == {"abandoned": 200}


@pytest.mark.parametrize("farewell", FAREWELLS)
@pytest.mark.parametrize("stream", [False, True])
@on_the_stand
async def test_an_answer_that_nobody_waits_for_is_not_generated(
    stand: Stand, farewell: Farewell, stream: bool
) -> None:
    """R02, R03: the engine has not sent a byte yet."""
    stand.upstream.handler = silent
    for delay_ms in (0, 1, 5, 20, 50, 300):
        name = f"{delay_ms}ms"
        async with await stand.client() as client:
            client.send(stand.request(body={"stream": stream}, client_id=name))
            await asyncio.sleep(delay_ms / 1000)
            left_at = now()
            client.leave(farewell)
        await noticed(stand.upstream, name, left_at)
        if delay_ms == 300:
            assert stand.upstream.seen_by(name), "not the case that was meant"
    # A client that resets before it was accepted was never there.
    assert set(await stand.outcomes()) == {"abandoned"}
    assert all(request.aborted for request in stand.upstream.seen)


@pytest.mark.parametrize("farewell", FAREWELLS)
@on_the_stand
async def test_a_client_that_leaves_without_having_read_is_noticed(
    stand: Stand, farewell: Farewell
) -> None:
    """R01: the gateway waits for the client to read, not for the engine."""
    stand.upstream.handler = endless_flood
    async with await stand.client() as client:
        client.send(stand.request(client_id="slow"))
        await stand.upstream.until(lambda: len(stand.upstream.seen) == 1)
        await asyncio.sleep(0.3)  # every buffer on the way fills up
        left_at = now()
        client.leave(farewell)
    await noticed(stand.upstream, "slow", left_at)
    assert await stand.outcomes() == {"abandoned": 1}


async def endless_flood(exchange: Exchange) -> None:
    exchange.start_chunked()
    while True:
        exchange.chunk(b"x" * 65_536)
        await exchange.drain()


@on_the_stand
async def test_the_second_request_of_a_connection_is_watched_like_the_first(stand: Stand) -> None:
    """R01: what was learned about the first one is not taken for the second."""
    async with await stand.client() as client:
        assert (await client.ask(stand.request())).status == 200
        stand.upstream.handler = silent
        client.send(stand.request(client_id="second"))
        await stand.upstream.until(lambda: len(stand.upstream.seen) == 2)
        left_at = now()
        client.leave("fin")
    await noticed(stand.upstream, "second", left_at)
    assert await stand.outcomes() == {"ok": 1, "abandoned": 1}


BEHIND_THE_RUNNING = {
    "one": request_bytes(),
    "many": request_bytes() * 30,
    "large": request_bytes(body=b"x" * 300_000),
    "unreadable": request_bytes() + b"\0\0\r\n",
}


@pytest.mark.parametrize("farewell", FAREWELLS)
@pytest.mark.parametrize("behind", list(BEHIND_THE_RUNNING))
@on_the_stand
async def test_what_is_pipelined_does_not_hide_that_its_client_has_left(
    stand: Stand, behind: str, farewell: Farewell
) -> None:
    """R03: a server that stops reading, or tells the wrong request, never hears of it."""
    stand.upstream.handler = silent
    async with await stand.client() as client:
        client.send(stand.request(client_id="running") + BEHIND_THE_RUNNING[behind])
        await stand.upstream.until(lambda: len(stand.upstream.seen) == 1)
        await asyncio.sleep(0.1)
        left_at = now()
        client.leave(farewell)
    await noticed(stand.upstream, "running", left_at)
    assert await stand.outcomes() == {"abandoned": 1}


@pytest.mark.parametrize("behind", list(BEHIND_THE_RUNNING))
@on_the_stand
async def test_what_is_pipelined_does_not_break_the_running_answer(
    stand: Stand, behind: str
) -> None:
    """R03"""
    stand.upstream.handler = hold = Hold()
    async with await stand.client() as client:
        client.send(stand.request() + BEHIND_THE_RUNNING[behind])
        await stand.upstream.until(lambda: len(stand.upstream.seen) == 1)
        await asyncio.sleep(0.1)
        hold.release()
        assert (await client.answer()).status == 200


@on_the_stand
async def test_an_http_1_0_client_is_watched_too(stand: Stand) -> None:
    """R01"""
    stand.upstream.handler = sse_stream(events=1000, interval_s=0.1)
    async with await stand.client() as client:
        request = stand.request(client_id="old").replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        client.send(request)
        await client.reader.readuntil(b"data: ")
        left_at = now()
        client.leave("rst")
    await noticed(stand.upstream, "old", left_at)
    assert await stand.outcomes() == {"abandoned": 1}


@on_the_stand
async def test_open_routes_are_aborted_as_well(stand: Stand) -> None:
    """R02: they hold no seat, but they hold the engine."""
    stand.upstream.handler = silent
    async with await stand.client() as client:
        client.send(stand.request("/v1/models", b"", "GET", client_id="list"))
        await stand.upstream.until(lambda: len(stand.upstream.seen) == 1)
        left_at = now()
        client.leave("fin")
    await noticed(stand.upstream, "list", left_at)


# While the request is on its way.


async def read_nothing(exchange: Exchange) -> None:
    exchange.stop_reading()
    await asyncio.sleep(0.5)
    exchange.read_on()
    await asyncio.Event().wait()


@pytest.mark.parametrize("farewell", FAREWELLS)
@on_the_stand
async def test_a_client_that_leaves_while_the_engine_takes_no_body_frees_its_seat(
    stand: Stand, farewell: Farewell
) -> None:
    """R02: the gateway is still sending."""
    stand.upstream.handler, stand.upstream.early = read_nothing, True
    try:
        async with await stand.client() as client:
            client.send(stand.request(body=b'{"prompt": "%b"}' % (b"x" * 20_000_000)))
            await stand.upstream.until(lambda: len(stand.upstream.seen) == 1)
            client.leave(farewell)
        await stand.sluice.until_metric("sluice_in_flight", 0, NOTICED_WITHIN_S)
        await stand.upstream.until(lambda: stand.upstream.aborts == 1)
    finally:
        stand.upstream.early = False


@pytest.mark.parametrize("farewell", FAREWELLS)
@on_the_stand
async def test_a_client_that_leaves_in_its_request_costs_nothing(
    stand: Stand, farewell: Farewell
) -> None:
    """R02: in the head, before the body, in the body, in chunks, before it was asked to go on."""
    whole = stand.request(body=b"x" * 100_000)
    chunked = stand.request(body=b"5\r\nhello\r\n", headers={"Transfer-Encoding": "chunked"})
    head_ends = whole.index(b"\r\n\r\n") + 4
    asking = stand.request(headers={"Content-Length": "9", "Expect": "100-continue"})[:-2]
    cuts = [whole[:1], whole[: head_ends - 2], whole[:head_ends], whole[:70_000], chunked, asking]
    for cut in cuts * 4:
        async with await stand.client() as client:
            client.send(cut)
            await asyncio.sleep(0.01)
            client.leave(farewell)
    await stand.sluice.until_idle()
    assert stand.upstream.seen == []
    assert set(await stand.outcomes()) == {"abandoned"}


# While it waits in the queue.


@pytest.mark.parametrize("extra", ["", "large-body", "pipelined"])
@pytest.mark.parametrize("farewell", FAREWELLS)
@on_the_stand
async def test_a_waiter_that_leaves_is_never_served_and_makes_room(
    stand: Stand, farewell: Farewell, extra: str
) -> None:
    """R05. All take both seats, so that they are served one after the other."""
    stand.upstream.handler = hold = Hold()
    body = {**BOTH_SEATS, "padding": "x" * 1_000_000} if extra == "large-body" else BOTH_SEATS

    async def queued(number: int, depth: int) -> RawClient:
        client = await stand.client()
        client.send(stand.request(body=body, client_id=f"c{number}"))
        if extra == "pipelined":
            client.send(stand.request(client_id=f"after-c{number}"))
        await stand.sluice.until_metric("sluice_queue_depth", depth)
        return client

    first = await stand.client()
    first.send(stand.request(body=BOTH_SEATS, client_id="c0"))
    await stand.upstream.until(lambda: stand.upstream.inflight == 1)
    clients = [await queued(number, number) for number in range(1, 5)]
    assert (await ask_once(stand.sluice.port, stand.request())).status == 503

    clients[1].leave(farewell)
    clients[3].leave(farewell)
    await stand.sluice.until_metric("sluice_queue_depth", 2, within_s=0.5)
    clients += [await queued(5, 3), await queued(6, 4)]

    hold.release()
    stayed = [first, clients[0], clients[2], clients[4], clients[5]]
    for client in stayed:
        for _ in range(2 if extra == "pipelined" and client is not first else 1):
            assert (await client.answer()).status == 200
    served = [request.client_id for request in stand.upstream.seen]
    assert [name for name in served if "after" not in str(name)] == ["c0", "c1", "c3", "c5", "c6"]
    assert (await stand.outcomes())["abandoned"] == 2
    for client in stayed:
        client.close()

"""Connections over a bound, on real sockets in this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from proxy.edge import listeners as module
from proxy.edge.connection import ConnectionLimits
from proxy.edge.connection_cap import Bound, ConnectionCap
from proxy.edge.listeners import listening
from proxy.edge.server import Address, bind
from tests.support.own_answer_form import check_own_answer
from tests.support.raw_client import RawClient, request_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import Receive, Scope, Send

LIMITS = ConnectionLimits(request_s=30, write_s=60, idle_s=75)


async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"in", "more_body": False})


@contextlib.asynccontextmanager
async def served(cap: ConnectionCap) -> AsyncIterator[int]:
    bound = bind(Address("127.0.0.1", 0, ""))
    async with listening((app,), (bound,), LIMITS, (cap,)):
        yield bound.getsockname()[1]


@contextlib.asynccontextmanager
async def full(cap: ConnectionCap) -> AsyncIterator[tuple[int, RawClient]]:
    """One connection is there, as many as may be."""
    async with served(cap) as port, await RawClient.connect(port) as client:
        assert (await client.ask(request_bytes())).body == b"in"
        yield port, client


@pytest.mark.parametrize(
    ("cap", "bound", "status", "type_", "variable"),
    [
        (ConnectionCap(None, 1), Bound.PER_ADDRESS, 429, "rate_limit_error", "_PER_ADDRESS"),
        (
            ConnectionCap(1, None),
            Bound.TOTAL,
            503,
            "service_unavailable_error",
            "_MAX_CONNECTIONS,",
        ),
    ],
)
def test_one_too_many_is_told_so_and_the_others_are_served(
    cap: ConnectionCap, bound: Bound, status: int, type_: str, variable: str
) -> None:
    refused: list[Bound] = []
    cap = ConnectionCap(cap.max_connections, cap.max_per_address, refused.append)

    async def scenario() -> None:
        async with full(cap) as (port, client):
            async with await RawClient.connect(port) as surplus:
                answer = await surplus.ask(request_bytes())
                check_own_answer(answer, status, type_, "too_many_connections", is_gated=False)
                assert answer.header("x-should-retry") == "false"
                assert answer.header("connection") == "close"
                assert variable in json.loads(answer.body)["error"]["message"]
                assert await surplus.rest() == (b"", False)
            assert (await client.ask(request_bytes())).body == b"in"
        assert refused == [bound]

    asyncio.run(scenario())


def test_a_place_is_free_again_when_its_connection_ends() -> None:
    async def scenario() -> None:
        cap = ConnectionCap(None, 1)
        async with full(cap) as (port, client):
            client.close()
            while "0 of" not in repr(cap):
                await asyncio.sleep(0)
            async with await RawClient.connect(port) as another:
                assert (await another.ask(request_bytes())).body == b"in"

    asyncio.run(scenario())


def test_what_it_is_told_arrives_while_it_still_sends() -> None:
    """Closing on unread bytes would take the answer away with a reset."""

    async def scenario() -> None:
        async with (
            full(ConnectionCap(None, 1)) as (port, _),
            await RawClient.connect(port) as surplus,
        ):
            answer = await surplus.ask(request_bytes(body=b"x" * 500_000))
            assert (answer.status, answer.complete) == (429, True)
            assert await surplus.rest() == (b"", False)

    asyncio.run(scenario())


@pytest.mark.parametrize("said", [b"", b"GET / HT"])
def test_one_too_many_that_says_nothing_is_not_kept(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SWEEP_EVERY_S", 0.01)
    monkeypatch.setattr("proxy.edge.counted_connection._ANSWERED_WITHIN_S", 0.05)

    async def scenario() -> None:
        async with (
            full(ConnectionCap(None, 1)) as (port, _),
            await RawClient.connect(port) as surplus,
        ):
            surplus.send(said)
            received, _ = await surplus.rest()
            assert received[:12] == (b"HTTP/1.1 408" if said else b"")

    asyncio.run(scenario())


def test_a_flood_is_dropped_as_it_comes(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        cap = ConnectionCap(None, 1)
        async with full(cap) as (port, client):
            flood = [await RawClient.connect(port) for _ in range(cap.max_answered + 20)]
            ends = [asyncio.create_task(one.rest()) for one in flood]
            for _, end in zip(range(20), asyncio.as_completed(ends), strict=False):
                await end
            assert sum(not end.done() for end in ends) == cap.max_answered
            assert (await client.ask(request_bytes())).body == b"in"
            for one in flood:
                one.close()
            await asyncio.gather(*ends)

    asyncio.run(scenario())
    assert caplog.messages[0] == (
        "a connection from 127.0.0.1 is refused: there are 1 from there, as many as there may be"
    )
    assert len(caplog.messages) < 20, "one for each would fill the disk"


def test_a_probe_is_answered_though_there_are_too_many() -> None:
    async def scenario() -> None:
        async with full(ConnectionCap(1)) as (port, _), await RawClient.connect(port) as probe:
            answer = await probe.ask(request_bytes("/healthz", b"", "GET"))
            assert (answer.status, answer.header("connection")) == (200, "close")
            assert await probe.rest() == (b"", False)

    asyncio.run(scenario())


@dataclass
class Bounded:
    """A listener whose bound moves, and connections to it."""

    port: int
    most: int
    clients: list[RawClient] = field(default_factory=list)

    async def come(self) -> RawClient:
        self.clients.append(await RawClient.connect(self.port))
        return self.clients[-1]

    async def are_closed(self, expected: list[bool]) -> None:
        """Whose connections the gateway has ended, in the order in which they came."""
        while [client.reader.at_eof() for client in self.clients] != expected:
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def bounded(monkeypatch: pytest.MonkeyPatch, held: asyncio.Event) -> AsyncIterator[Bounded]:
    """Sweeps every 10 ms; a request for /held waits."""
    monkeypatch.setattr(module, "_SWEEP_EVERY_S", 0.01)
    monkeypatch.setattr(module, "_RESTED_S", 0.05)

    async def hold(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/held":
            await held.wait()
        await app(scope, receive, send)

    bound = bind(Address("127.0.0.1", 0, ""))
    stand = Bounded(bound.getsockname()[1], most=10)
    async with listening((hold,), (bound,), LIMITS, (ConnectionCap(lambda: stand.most),)):
        yield stand
        for client in stand.clients:
            client.close()


def test_when_the_bound_falls_those_go_that_have_rested_longest_and_nobody_at_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def scenario() -> None:
        held = asyncio.Event()
        async with bounded(monkeypatch, held) as stand:
            working = await stand.come()
            working.send(request_bytes("/held"))
            silent, first, second = [await stand.come() for _ in range(3)]
            half = await stand.come()
            half.send(b"GET / HT")
            for client in (second, first):  # so that first has rested for the shorter time
                assert (await client.ask(request_bytes())).body == b"in"
            stand.most = 3
            await stand.are_closed([False, True, False, True, False])
            stand.most = 1
            await stand.are_closed([False, True, True, True, False])
            await asyncio.sleep(0.1)
            await stand.are_closed([False, True, True, True, False])
            held.set()
            assert (await working.answer()).body == b"in"
            await stand.are_closed([True, True, True, True, False])
            half.send(b"TP/1.1\r\nhost: x\r\n\r\n")
            assert (await half.answer()).body == b"in"
            assert silent.reader.at_eof()

    asyncio.run(scenario())
    told = [record.message for record in caplog.records if "resting" in record.message]
    assert told[0].startswith("2 resting connections of clients are closed: there may be 3 now")


def test_one_that_is_over_a_bound_is_not_closed_in_the_place_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with bounded(monkeypatch, asyncio.Event()) as stand:
            stand.most = 1
            inside = await stand.come()
            assert (await inside.ask(request_bytes())).body == b"in"
            await stand.come()
            stand.most = 0
            await stand.are_closed([True, False])

    asyncio.run(scenario())

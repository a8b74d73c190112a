from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.simulator.exchange import ClientGoneError, Exchange
from tests.support.asgi_transport import AsgiClient
from tests.support.simulated_server import events_of
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


def test_a_body_in_pieces_is_joined() -> None:
    bodies: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        await exchange.read_body()
        bodies.append(exchange.body)
        await exchange.answer(204)

    run(AsgiClient(app).request("POST", b"/", body=[b"a", 1.0, b"b", 1.0, b"c"]))
    assert bodies == [b"abc"]


def test_a_client_that_leaves_in_its_body_is_noticed() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        with pytest.raises(ClientGoneError):
            await Exchange(scope, receive, send).read_body()

    async def scenario() -> None:
        exchange = AsgiClient(app).start("POST", b"/", body=[b"a", 100.0, b"b"])
        await asyncio.sleep(1)
        exchange.disconnect()
        await exchange.ended()
        assert now() == 1.0

    run(scenario())


def test_headers_are_read_by_lower_case_name() -> None:
    scope = {"method": "GET", "path": "/", "headers": [(b"x-a", b"1"), (b"x-a", b"2")]}
    exchange = Exchange(scope, _unused, _unused)
    assert exchange.header(b"x-a") == "1"
    assert exchange.header(b"x-b") is None


def test_json_is_compact_and_its_length_told() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Exchange(scope, receive, send).json(201, {"a": None}, [(b"x-extra", b"1")])

    answer = run(AsgiClient(app).request("GET", b"/"))
    assert (answer.status, answer.body) == (201, b'{"a":null}')
    assert answer.header("content-length") == "10"
    assert answer.header("content-type") == "application/json"
    assert answer.header("x-extra") == "1"


def test_events_are_framed_as_vllm_frames_them() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        await exchange.start_events()
        await exchange.event({"a": 1})
        await exchange.event({"b": 2}, name="named")
        await exchange.end_events()

    answer = run(AsgiClient(app).request("GET", b"/"))
    assert answer.body == (b'data: {"a":1}\n\nevent: named\ndata: {"b":2}\n\ndata: [DONE]\n\n')
    assert answer.header("content-type") == "text/event-stream; charset=utf-8"
    assert events_of(answer.body) == [{"a": 1}, {"b": 2}, "[DONE]"]


def test_a_client_that_leaves_is_noticed_within_100_ms() -> None:
    noticed: list[float] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        await exchange.read_body()
        with exchange.watch(lambda: noticed.append(now())):
            await asyncio.sleep(30)

    async def scenario() -> None:
        for stays_s in (0.0, 0.001, 5.0):
            noticed.clear()
            exchange, began = AsgiClient(app).start("POST", b"/", body=b"x"), now()
            await asyncio.sleep(stays_s)
            exchange.disconnect()
            await exchange.ended()
            assert noticed[0] - began - stays_s < 0.1
            assert len(noticed) == 1

    run(scenario())


def test_nobody_is_told_of_a_client_that_leaves_after_the_watch() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        await exchange.read_body()
        with exchange.watch(lambda: pytest.fail("told")):
            await asyncio.sleep(0.5)
        await asyncio.sleep(10)

    async def scenario() -> None:
        exchange = AsgiClient(app).start("POST", b"/", body=b"x")
        await asyncio.sleep(1)
        exchange.disconnect()
        await exchange.ended()

    run(scenario())


async def _unused(*_: object) -> dict[str, object]:
    raise AssertionError("not used here")

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.asgi_transport import AsgiClient, NoResponseError
from tests.support.virtual_time import now, run, settle

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

START = {"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1")]}


def part(body: bytes, *, more_body: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more_body}


async def read_all(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        assert message["type"] == "http.request"
        body, more = body + message["body"], message["more_body"]
    return body


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await read_all(receive)
    await send(START)
    await send(
        part(scope["raw_path"] + b"?" + scope["query_string"] + b" " + body, more_body=False)
    )


async def ticker(scope: Scope, receive: Receive, send: Send) -> None:
    del scope
    await read_all(receive)
    await send(START)
    for tick in range(3):
        await send(part(b"%d" % tick))
        await asyncio.sleep(1)
    await send(part(b"", more_body=False))


async def endless(scope: Scope, receive: Receive, send: Send) -> None:
    del receive
    await send(START)
    while not scope["extensions"]["sluice.connection"].is_closing():
        await send(part(b"x" * 10))
        await asyncio.sleep(0.1)


def test_a_whole_request_and_its_answer() -> None:
    async def scenario() -> None:
        response = await AsgiClient(echo).request("POST", b"/a%2Fb?q=1", body=b"hello")
        assert response.status == 200
        assert response.header("X-A") == "1"
        assert response.body == b"/a%2Fb?q=1 hello"
        assert response.completed

    run(scenario())


def test_chunks_come_when_they_are_sent() -> None:
    async def scenario() -> None:
        exchange = AsgiClient(ticker).start("GET", b"/")
        seen = [(now(), chunk) async for chunk in exchange]
        assert seen == [(0, b"0"), (1, b"1"), (2, b"2")]
        assert exchange.completed
        assert not exchange.broken_off
        await exchange.ended()

    run(scenario())


def test_an_upload_pauses_where_it_is_told_to() -> None:
    async def scenario() -> None:
        response = await AsgiClient(echo).request("POST", b"/", body=[b"ab", 2.5, b"cd", 1.0])
        assert response.body == b"/? abcd"
        assert now() == 3.5

    run(scenario())


def test_a_disconnect_reaches_receive_and_silences_send() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        await read_all(receive)
        assert (await receive())["type"] == "http.disconnect"
        await send(START)
        await send(part(b"unseen", more_body=False))

    async def scenario() -> None:
        exchange = AsgiClient(app).start("GET", b"/")
        asyncio.get_running_loop().call_later(3, exchange.disconnect)
        await exchange.ended()
        assert now() == 3
        assert exchange.broken_off
        assert exchange.sent_after_disconnect == 2
        with pytest.raises(NoResponseError):
            await exchange.head()

    run(scenario())


def test_after_a_completed_response_receive_says_disconnect() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        await send(START)
        await send(part(b"", more_body=False))
        assert (await receive())["type"] == "http.disconnect"

    async def scenario() -> None:
        assert (await AsgiClient(app).request("GET", b"/")).completed

    run(scenario())


def test_a_client_that_stops_reading_blocks_send_until_it_reads_again() -> None:
    async def scenario() -> None:
        exchange = AsgiClient(endless).start("GET", b"/")
        exchange.stop_reading(room_bytes=25)
        await asyncio.sleep(60)
        assert sum(map(len, exchange._unread)) == 30
        exchange.resume_reading()
        await asyncio.sleep(60)
        assert sum(map(len, exchange._unread)) > 300
        exchange.disconnect()
        await exchange.ended()

    run(scenario())


def test_reading_what_piled_up_makes_room() -> None:
    async def scenario() -> None:
        exchange = AsgiClient(endless).start("GET", b"/")
        exchange.stop_reading(room_bytes=1)
        chunks = aiter(exchange)
        for _ in range(5):
            assert await anext(chunks) == b"x" * 10
        exchange.disconnect()
        await exchange.ended()

    run(scenario())


def test_an_aborted_response_is_broken_off_but_what_was_sent_arrived() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_all(receive)
        await send(START)
        await send(part(b"half"))
        scope["extensions"]["sluice.connection"].abort()
        assert (await receive())["type"] == "http.disconnect"

    async def scenario() -> None:
        response = await AsgiClient(app).request("GET", b"/")
        assert response.body == b"half"
        assert not response.completed

    run(scenario())


def test_close_waits_for_a_stalled_client_but_abort_does_not() -> None:
    async def scenario(ending: str) -> bool:
        exchange = AsgiClient(endless).start("GET", b"/")
        exchange.stop_reading(room_bytes=5)
        await asyncio.sleep(1)
        getattr(exchange.connection, ending)()
        await settle()
        gone = exchange.disconnected
        exchange.resume_reading()
        await exchange.ended()
        return gone

    assert not run(scenario("close"))
    assert run(scenario("abort"))


def test_an_app_that_returns_early_breaks_the_response_off() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send(START)
        await send(part(b"half"))

    async def scenario() -> None:
        exchange = AsgiClient(app).start("GET", b"/")
        assert await exchange.read() == b"half"
        assert exchange.broken_off

    run(scenario())


def test_what_the_app_raises_reaches_the_test() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive, send
        raise ZeroDivisionError

    async def scenario() -> None:
        with pytest.raises(ZeroDivisionError):
            await AsgiClient(app).request("GET", b"/")

    run(scenario())


@pytest.mark.parametrize("body", [b"abc", b"a"])
def test_a_body_that_misses_its_content_length_fails_as_in_uvicorn(body: bytes) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send(START | {"headers": [(b"content-length", b"2")]})
        await send(part(body, more_body=False))

    async def scenario() -> None:
        with pytest.raises(RuntimeError, match="content-length"):
            await AsgiClient(app).request("GET", b"/")

    run(scenario())

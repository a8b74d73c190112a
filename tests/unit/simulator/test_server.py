from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from proxy.simulator.faults import Die, ResetStreams, Stall
from proxy.simulator.options import SimulatorOptions
from proxy.simulator.server import create_app
from proxy.simulator.simulated_engine import WATCHDOG_S
from tests.support.asgi_transport import NoResponseError
from tests.support.simulated_server import events_of, simulated
from tests.support.virtual_time import now, run, settle

CHAT = b"/v1/chat/completions"
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}
STREAM = ASK | {"stream": True}
LONG = ASK | {"max_tokens": 4000, "ignore_eos": True}


# Routes


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", b"/nope", 404, None),
        ("GET", b"/v1/models/simulated", 404, None),
        ("GET", CHAT, 405, "POST"),
        ("DELETE", b"/v1/responses/resp_1", 405, "GET"),
        ("PUT", b"/ping", 405, "GET, POST"),
        ("HEAD", b"/health", 405, "GET"),
    ],
)
def test_unknown_routes_and_methods_are_answered_in_the_frameworks_form(
    method: str, path: bytes, status: int, allow: str | None
) -> None:
    async def scenario() -> None:
        async with simulated() as server:
            answer = await server.client.request(method, path)
            assert answer.status == status
            assert answer.header("allow") == allow
            phrase = {404: "Not Found", 405: "Method Not Allowed"}[status]
            assert json.loads(answer.body) == {"detail": phrase}

    run(scenario())


def test_no_response_is_ever_stored() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            stored = await server.get(b"/v1/responses/resp_1")
            cancelled = await server.post(b"/v1/responses/resp_1/cancel", {})
            assert stored.status == cancelled.status == 404
            error = json.loads(stored.body)["error"]
            assert error["message"] == "Response with id 'resp_1' not found."
            assert stored.body == cancelled.body

    run(scenario())


@pytest.mark.parametrize(
    ("body", "object_"),
    [
        (ASK, "chat.completion"),
        ({"prompt": "hello"}, "text_completion"),
        ({"input": "hello"}, "list"),
    ],
)
def test_invocations_go_where_their_body_belongs(body: dict[str, Any], object_: str) -> None:
    async def scenario() -> None:
        async with simulated() as server:
            answer = await server.post(b"/invocations", body)
            assert json.loads(answer.body)["object"] == object_

    run(scenario())


def test_a_websocket_is_closed() -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: object) -> None:
        sent.append(message)

    app = create_app(SimulatorOptions())
    run(app({"type": "websocket", "path": "/v1/realtime"}, receive, send))
    assert sent == [{"type": "websocket.close"}]


# Keys


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        (b"Bearer wrong", 401),
        (b"Bearer sk-engin", 401),
        (b"Basic sk-engine", 401),
        (b"sk-engine", 401),
        (b"Bearer sk-engine", 200),
        (b"bearer sk-engine", 200),
    ],
)
def test_guarded_routes_ask_for_the_key(authorization: bytes | None, status: int) -> None:
    async def scenario() -> None:
        async with simulated(api_key="sk-engine") as server:
            headers = [] if authorization is None else [(b"authorization", authorization)]
            answer = await server.get(b"/v1/models", headers)
            assert answer.status == status
            if status == 401:
                assert answer.body == b'{"error":"Unauthorized"}'

    run(scenario())


def test_the_key_guards_prefixes_and_nothing_else() -> None:
    async def scenario() -> None:
        async with simulated(api_key="sk-engine") as server:
            for path in (b"/v1/nope", b"/v2/rerank", b"/inference/x", b"/cohere/x"):
                assert (await server.get(path)).status == 401
            for path in (b"/health", b"/metrics", b"/version", b"/load"):
                assert (await server.get(path)).status == 200
            assert (await server.post(b"/tokenize", {"prompt": "hello"})).status == 200

    run(scenario())


# Clients that leave


@pytest.mark.parametrize("body", [LONG, LONG | {"stream": True}, LONG | {"n": 3}])
@pytest.mark.parametrize("stays_s", [0.0, 0.001, 0.019, 0.5])
def test_a_client_that_leaves_is_aborted_in_the_engine_within_100_ms(
    body: dict[str, Any], stays_s: float
) -> None:
    async def scenario() -> None:
        async with simulated() as server:
            exchange = server.start(CHAT, body)
            await asyncio.sleep(stays_s)
            exchange.disconnect()
            await asyncio.sleep(0.1)
            snapshot = server.engine.snapshot()
            assert (snapshot.running, snapshot.waiting, snapshot.blocks_used) == (0, 0, 0)
            await exchange.ended()

    run(scenario())


def test_a_waiting_client_that_leaves_gives_its_place_up() -> None:
    async def scenario() -> None:
        async with simulated(max_num_seqs=1) as server:
            first, second = server.start(CHAT, LONG), server.start(CHAT, LONG)
            await asyncio.sleep(0.5)
            assert server.engine.snapshot().waiting == 1
            second.disconnect()
            await asyncio.sleep(0.1)
            assert server.engine.snapshot().waiting == 0
            first.disconnect()
            await first.ended()

    run(scenario())


# Limits, load, health


def test_a_full_queue_is_503_before_a_stream_begins() -> None:
    async def scenario() -> None:
        async with simulated(max_num_queued_reqs=2) as server:
            held = server.start(CHAT, LONG)
            await settle()
            for body in (ASK | {"n": 2}, STREAM | {"n": 2}):
                answer = await server.post(CHAT, body)
                assert answer.status == 503
                assert json.loads(answer.body)["error"]["type"] == "Service Unavailable"
            assert (await server.post(CHAT, ASK)).status == 200
            held.disconnect()
            await held.ended()

    run(scenario())


@pytest.mark.parametrize("tracking", [True, False])
def test_load_counts_running_requests_when_told_to(tracking: bool) -> None:
    async def scenario() -> None:
        async with simulated(enable_server_load_tracking=tracking) as server:
            held = server.start(CHAT, LONG | {"stream": True})
            await settle()
            assert json.loads((await server.get(b"/load")).body) == {"server_load": int(tracking)}
            held.disconnect()
            await held.ended()
            assert json.loads((await server.get(b"/load")).body) == {"server_load": 0}

    run(scenario())


# Faults


def test_a_stalled_engine_is_healthy_takes_requests_and_answers_none() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            server.engine.inject(Stall())
            stream, plain = server.start(CHAT, STREAM), server.start(CHAT, ASK)
            await asyncio.sleep(600)
            assert (await stream.head()).status == 200
            assert not plain.completed
            assert (await server.get(b"/health")).status == 200
            assert (await server.get(b"/metrics")).status == 200
            server.engine.resume()
            assert events_of(await stream.read())[-1] == "[DONE]"
            assert (await plain.head()).status == 200

    run(scenario())


def test_death_ends_a_stream_with_an_error_and_a_plain_request_with_500() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            stream, plain = server.start(CHAT, LONG | {"stream": True}), server.start(CHAT, LONG)
            await asyncio.sleep(1)
            server.engine.inject(Die())
            error, done = events_of(await stream.read())[-2:]
            assert error["error"]["code"] == 500
            assert error["error"]["type"] == "InternalServerError"
            assert done == "[DONE]"
            assert (await plain.head()).status == 500
            assert json.loads(await plain.read()) == error

    run(scenario())


def test_a_dead_server_is_unhealthy_and_exits_at_the_first_500() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            server.engine.inject(Die())
            assert (await server.get(b"/health")).status == 503
            assert (await server.get(b"/metrics")).status == 200
            assert (await server.post(CHAT, STREAM)).status == 500
            exchange = server.start(CHAT, ASK)
            with pytest.raises(ConnectionRefusedError):
                await exchange.head()

    run(scenario())


def test_without_requests_a_dead_server_exits_when_the_watchdog_looks() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            server.engine.inject(Die())
            await asyncio.sleep(WATCHDOG_S - 0.1)
            assert (await server.get(b"/health")).status == 503
            await asyncio.sleep(0.2)
            with pytest.raises(ConnectionRefusedError):
                await server.get(b"/health")

    run(scenario())


def test_a_server_told_to_live_on_answers_500_for_ever() -> None:
    async def scenario() -> None:
        async with simulated(keep_alive_on_engine_death=True) as server:
            server.engine.inject(Die())
            for _ in range(3):
                assert (await server.post(CHAT, ASK)).status == 500
                await asyncio.sleep(60)

    run(scenario())


def test_a_reset_breaks_a_stream_off_after_its_tokens() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            server.engine.inject(ResetStreams(after_tokens=5))
            exchange = server.start(CHAT, LONG | {"stream": True})
            body = await exchange.read()
            await exchange.ended()
            assert exchange.broken_off
            assert "[DONE]" not in events_of(body)
            words = [e["choices"][0]["delta"]["content"] for e in events_of(body)]
            assert len("".join(words).split()) == 5
            assert server.engine.snapshot().running == 0
            assert (await server.post(CHAT, ASK)).status == 200

    run(scenario())


# Life


def test_the_lifespan_starts_and_stops_the_engine() -> None:
    async def scenario() -> None:
        app = create_app(SimulatorOptions())
        incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        outgoing: asyncio.Queue[Any] = asyncio.Queue()
        life = asyncio.ensure_future(app({"type": "lifespan"}, incoming.get, outgoing.put))
        incoming.put_nowait({"type": "lifespan.startup"})
        assert await outgoing.get() == {"type": "lifespan.startup.complete"}
        incoming.put_nowait({"type": "lifespan.shutdown"})
        assert await outgoing.get() == {"type": "lifespan.shutdown.complete"}
        await life

    run(scenario())


def test_a_head_of_a_stream_comes_before_its_first_token() -> None:
    async def scenario() -> None:
        async with simulated(max_num_seqs=1) as server:
            held = server.start(CHAT, LONG)
            await settle()
            stream = server.start(CHAT, STREAM)
            await stream.head()
            assert now() == 0.0
            stream.disconnect()
            held.disconnect()
            await asyncio.sleep(0.1)

    run(scenario())


def test_no_answer_comes_to_a_client_that_left_in_its_body() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            exchange = server.client.start("POST", CHAT, body=[b"{", 10.0, b"}"])
            await asyncio.sleep(1)
            exchange.disconnect()
            with pytest.raises(NoResponseError):
                await exchange.head()
            assert exchange.sent_after_disconnect == 0

    run(scenario())

"""What passes to the engine, what takes a seat on the way, and what stays alive when it is full.

Field cases R113 to R118. The table is written from vLLM's own list of routes, not from ours.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.burst import Burst
from tests.support.gateway_process import gateway
from tests.support.own_answer_form import check_own_answer
from tests.support.raw_client import RawClient, ask_once, request_bytes
from tests.support.scripted_upstream import (
    Exchange,
    Hold,
    ScriptedUpstream,
    json_answer,
    silent,
)
from tests.support.stand import Stand, on_the_stand, standing

if TYPE_CHECKING:
    from collections.abc import Iterator

INVALID = "invalid_request_error"

# Routes of vLLM 0.32 that a client may use.
GATED = {
    ("POST", path)
    for path in (
        "/v1/chat/completions",
        "/v1/chat/completions/batch",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/inference/v1/generate",
        "/generative_scoring",
        "/v1/systemone",
        "/cohere/v2/chat",
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
        "/v1/embeddings",
        "/v2/embed",
        "/pooling",
        "/classify",
        "/score",
        "/v1/score",
        "/rerank",
        "/v1/rerank",
        "/v2/rerank",
    )
}
OPEN = {
    ("GET", "/v1/models"),
    ("GET", "/v1/models/tiny"),
    ("GET", "/v1/models/org/name"),
    ("GET", "/v1/models/org%2Fname"),
    ("GET", "/version"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1/chat/completions/render"),
    ("POST", "/v1/completions/render"),
    ("GET", "/v1/responses/resp_1"),
    ("DELETE", "/v1/responses/resp_1"),
    ("POST", "/v1/responses/resp_1/cancel"),
}
SERVED = GATED | OPEN
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@pytest.fixture(scope="module", name="stand")
def _stand() -> Iterator[Stand]:
    with standing(max_in_flight=2, max_queue_depth=4, queue_timeout=5) as stand:
        yield stand


# The table.


@on_the_stand
async def test_every_route_of_vllm_passes_with_its_method_and_no_other(stand: Stand) -> None:
    """R115: what is not allowed is refused in our words, and the engine hears nothing of it."""
    paths = sorted({path for _method, path in SERVED})
    async with await stand.client() as client:
        for method in METHODS:
            for path in paths:
                body = b"{}" if method in ("POST", "PUT", "PATCH") else b""
                client.send(request_bytes(path, body, method))
                answer = await client.answer(head_request=method == "HEAD")
                if (method, path) in SERVED:
                    assert answer.status == 200, (method, path)
                    (seen,) = stand.upstream.seen
                    assert (seen.method, seen.target) == (method, path.encode())
                    stand.upstream.seen.clear()
                    continue
                assert answer.status == 405, (method, path)
                allowed = {m for m, p in SERVED if p == path}
                assert set((answer.header("allow") or "").split(", ")) == allowed
                if method != "HEAD":
                    check_own_answer(answer, 405, INVALID, "method_not_allowed")
    assert stand.upstream.seen == []


@on_the_stand
async def test_exactly_the_generating_routes_take_a_seat(stand: Stand) -> None:
    """R115, R116"""
    for method, path in sorted(SERVED):
        stand.upstream.handler = hold = Hold()
        async with await stand.client() as client:
            client.send(request_bytes(path, b"{}" if method == "POST" else b"", method))
            await stand.upstream.until(lambda: stand.upstream.inflight == 1)
            seats = await stand.sluice.metric("sluice_in_flight")
            assert seats == ((method, path) in GATED), path
            hold.release()
            answer = await client.answer()
            assert answer.status == 200
            assert (answer.header("server-timing") is not None) == ((method, path) in GATED)


@pytest.mark.parametrize(
    "target",
    [
        "/v1/completions?api-version=2024-01-01&a=1&a=2",
        "/v1/completions?x=%2F..%2F&y=a+b&%20=%C3%A9",
        "/v1/completions?q=/v1/models?x",
    ],
)
@on_the_stand
async def test_a_query_passes_as_it_was_written(stand: Stand, target: str) -> None:
    """R115"""
    assert (await ask_once(stand.sluice.port, request_bytes(target))).status == 200
    assert [request.target for request in stand.upstream.seen] == [target.encode()]


OTHER_SPELLINGS = [
    "/v1/completions/",
    "/v1/models/",
    "//v1/models",
    "/v1//models",
    "/V1/models",
    "/v1/%6dodels",
    "/v1%2Fmodels",
    "/%76ersion",
]


@pytest.mark.parametrize("path", OTHER_SPELLINGS)
@on_the_stand
async def test_a_path_is_what_it_is_and_nothing_is_tidied_up(stand: Stand, path: str) -> None:
    """R115, R121: no redirect to the path with or without a slash, which would make a POST a GET,
    and no second spelling for what others may have rules about.
    """
    for method in ("GET", "POST"):
        answer = await ask_once(stand.sluice.port, request_bytes(path, b"", method))
        check_own_answer(answer, 404, INVALID, "unknown_path")
    assert stand.upstream.seen == []


@on_the_stand
async def test_a_redirect_of_the_engine_is_the_clients_to_follow(stand: Stand) -> None:
    """R115: 307 passes; following it ourselves could lead anywhere."""
    stand.upstream.handler = json_answer({}, 307, [("location", "http://elsewhere.test/x")])
    answer = await ask_once(stand.sluice.port, request_bytes())
    assert (answer.status, answer.header("location")) == (307, "http://elsewhere.test/x")
    assert len(stand.upstream.seen) == 1


@on_the_stand
async def test_the_list_of_models_is_the_engines_to_the_byte(stand: Stand) -> None:
    """R117: every field, in its order, with its blanks."""
    body = b'{ "object":"list","data":[\n {"id":"tiny","created":1764564564,"owned_by":"vllm",'
    body += b'"max_model_len": 2048,"permission":[],"x":1e3} ] }\n'

    async def models(exchange: Exchange) -> None:
        exchange.respond(body, headers=[("X-Odd-Case", "kept"), ("x-odd-case", "twice")])

    stand.upstream.handler = models
    for path in ("/v1/models", "/v1/models/tiny"):
        answer = await ask_once(stand.sluice.port, request_bytes(path, b"", "GET"))
        assert answer.body == body
        kept = [pair for pair in answer.headers if pair[0].lower() == "x-odd-case"]
        assert kept == [("X-Odd-Case", "kept"), ("x-odd-case", "twice")]


# Alive when full.

PROBES = [("public", "GET", "/healthz"), ("public", "GET", "/readyz"), ("admin", "GET", "/healthz")]
PROBES += [("admin", "GET", "/readyz"), ("admin", "GET", "/metrics")]


@on_the_stand
async def test_open_routes_are_alive_while_every_seat_and_place_is_taken(stand: Stand) -> None:
    """R116: and they take none; two hundred idle clients change nothing."""
    hold = Hold()

    async def engine(exchange: Exchange) -> None:
        await (hold if exchange.request.path == b"/v1/completions" else json_answer())(exchange)

    stand.upstream.handler = engine
    ports = {"public": stand.sluice.port, "admin": stand.sluice.admin_port}
    asked = [*PROBES, *(("public", method, path) for method, path in sorted(OPEN))]
    with Burst(stand.sluice.port, 6) as full, Burst(stand.sluice.port, 200):
        await full.send(request_bytes())
        await stand.sluice.until_metric("sluice_queue_depth", 4)
        for listener, method, path in asked:
            started = time.perf_counter()
            body = b"{}" if method == "POST" else b""
            answer = await ask_once(ports[listener], request_bytes(path, body, method))
            assert answer.status == 200, path
            assert time.perf_counter() - started < 1, path
        assert await stand.sluice.metric("sluice_in_flight") == 2
        assert await stand.sluice.metric("sluice_queue_depth") == 4
        generating = [one for one in stand.upstream.seen if one.path == b"/v1/completions"]
        assert len(generating) == 2
        hold.release()
        assert [answer.status for answer in await full.answers(6)] == [200] * 6


# Responses.

RESPONSE_EVENTS = b"".join(
    b"event: %b\ndata: %b\n\n" % (name, json.dumps({"type": name.decode(), "n": n}).encode())
    for n, name in enumerate(
        (
            b"response.created",
            b"response.in_progress",
            b"response.output_text.delta",
            b"response.failed",
        )
    )
)


@on_the_stand
async def test_response_events_pass_with_their_names(stand: Stand) -> None:
    """R118: response.failed is the engine's word, at status 200."""

    async def respond(exchange: Exchange) -> None:
        exchange.start_chunked()
        await exchange.dribble(b"", 1)
        for start in range(0, len(RESPONSE_EVENTS), 7):
            exchange.chunk(RESPONSE_EVENTS[start : start + 7])
            await asyncio.sleep(0)
        exchange.end_chunked()

    stand.upstream.handler = respond
    answer = await ask_once(stand.sluice.port, request_bytes("/v1/responses", {"stream": True}))
    assert (answer.status, answer.body, answer.complete) == (200, RESPONSE_EVENTS, True)
    assert await stand.outcomes() == {"ok": 1}


@on_the_stand
async def test_a_response_stream_whose_reader_leaves_is_aborted(stand: Stand) -> None:
    """R118"""

    async def begin(exchange: Exchange) -> None:
        exchange.start_chunked()
        exchange.chunk(RESPONSE_EVENTS[:40])
        await silent(exchange)

    stand.upstream.handler = begin
    async with await stand.client() as client:
        client.send(request_bytes("/v1/responses", {"stream": True}))
        await client.chunk(await client.head())
        client.reset()
        await stand.upstream.until(lambda: stand.upstream.aborts == 1, within_s=1)


# WebSocket, which is not served yet.

HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/chat/completions", "/anything"])
@on_the_stand
async def test_a_websocket_is_refused_promptly_in_plain_words(stand: Stand, path: str) -> None:
    """R113: no 500, no 101, no seat."""
    async with await stand.client() as client:
        answer = await client.ask(request_bytes(path, b"", "GET", HANDSHAKE))
        if path == "/v1/chat/completions":
            check_own_answer(answer, 405, INVALID, "method_not_allowed")
        else:
            check_own_answer(answer, 404, INVALID, "unknown_path")
        assert await client.rest() == (b"", False)
    assert stand.upstream.seen == []


@on_the_stand
async def test_aborted_handshakes_leave_nothing_behind(stand: Stand) -> None:
    """R113: a hundred of them, and the capacity probe after."""
    handshake = request_bytes("/v1/realtime", b"", "GET", HANDSHAKE)
    before = stand.sluice.open_descriptors()
    for number in range(100):
        async with await stand.client() as client:
            client.send(handshake[: 20 + number])
            client.leave("rst" if number % 2 else "fin")
    await stand.upstream.until(lambda: stand.sluice.open_descriptors() <= before)
    assert stand.upstream.seen == []


@on_the_stand
async def test_an_upgrade_that_nobody_follows_is_served_as_what_it_is(stand: Stand) -> None:
    """R113: Java's client offers h2c with every request; it is answered in HTTP/1.1."""
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMA"}
    async with await stand.client() as client:
        answer = await client.ask(request_bytes("/v1/models", b"", "GET", offer))
        assert (answer.status, answer.header("connection")) == (200, "close")
    (seen,) = stand.upstream.seen
    assert seen.header(b"upgrade") is None
    assert seen.header(b"http2-settings") is None


@on_the_stand
async def test_a_post_that_offers_an_upgrade_reaches_the_engine_with_its_body(stand: Stand) -> None:
    """R113: as Java's client posts; a parser that follows the offer loses the body."""
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMA"}
    body = b'{"prompt": "from Java"}'
    async with await stand.client() as client:
        answer = await client.ask(request_bytes("/v1/completions", body, "POST", offer))
        assert answer.status == 200
    (seen,) = stand.upstream.seen
    assert seen.body == body


# Routes that an operator lets through.


def test_exposed_routes_pass_and_are_no_way_round_the_limit() -> None:
    """R115, R120: /invocations leads to every generating route, so it is gated as they are."""
    exposed = "GET /health, GET /load, POST /invocations, POST /v1/completions"

    async def scenario() -> None:
        hold = Hold()
        async with (
            ScriptedUpstream(hold, probes={}) as upstream,
            gateway(
                upstream.url, max_in_flight=2, expose=exposed, wait_until_ready=False
            ) as sluice,
            AsyncExitStack() as stack,
        ):
            hold.release()
            assert (await ask_once(sluice.port, request_bytes("/load", b"", "GET"))).status == 200
            answer = await ask_once(sluice.port, request_bytes("/load", b"", "POST"))
            check_own_answer(answer, 405, INVALID, "method_not_allowed")
            hold.hold_again()
            for path, seats in (("/invocations", 2), ("/v1/completions", 1)):
                client = await stack.enter_async_context(await RawClient.connect(sluice.port))
                client.send(request_bytes(path, {"prompt": ["a"] * seats}))
                await sluice.until_metric("sluice_in_flight", seats)
                hold.release()
                assert (await client.answer()).status == 200
                hold.hold_again()
                await sluice.until_metric("sluice_in_flight", 0)

    asyncio.run(scenario())

"""Every answer that the gateway makes itself, provoked on a real socket.

Field case R60: whatever goes wrong, a client gets an OpenAI error that its SDK understands.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import openai
import pytest

from tests.support.gateway_process import eventually, gateway
from tests.support.in_process import gateway_in_process
from tests.support.own_answer_form import check_own_answer
from tests.support.raw_client import RawClient, request_bytes
from tests.support.scripted_upstream import (
    Hold,
    ScriptedUpstream,
    close_on_receipt,
    json_answer,
    raw_answer,
    reset_on_receipt,
    silent,
)
from tests.support.sdk import sdk_request
from tests.support.stand import Stand, on_the_stand, standing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from tests.support.scripted_answers import Handler

    Condition = Callable[[Stand], AbstractAsyncContextManager[None]]

CLIENT_KEY = "client-key"
AUTHORIZED = {"Authorization": f"Bearer {CLIENT_KEY}"}
CHAT = "/v1/chat/completions"
OVERLOADED = "service_unavailable_error"
INVALID = "invalid_request_error"
ENGINE_FAILED = "upstream_error"


@pytest.fixture(scope="module", name="stand")
def _stand() -> Iterator[Stand]:
    """Small bounds, so that each of them is soon met."""
    with standing(
        AUTHORIZED,
        max_in_flight=1,
        max_queue_depth=1,
        queue_timeout=1,
        api_keys=f"app:{CLIENT_KEY}",
        max_body_bytes=50_000,
        body_timeout=1,
        first_byte_timeout=0.5,
        max_seats_per_request=4,
    ) as stand:
        yield stand


# What the world is like when the request comes.


@contextlib.asynccontextmanager
async def as_usual(_stand: Stand) -> AsyncIterator[None]:
    yield


@contextlib.asynccontextmanager
async def every_seat_taken(stand: Stand) -> AsyncIterator[None]:
    stand.upstream.handler = hold = Hold(start=True)
    async with await stand.client() as running:
        running.send(stand.request())
        await stand.upstream.until(lambda: stand.upstream.inflight == 1)
        yield
        hold.release()
        await running.answer()


@contextlib.asynccontextmanager
async def every_place_taken(stand: Stand) -> AsyncIterator[None]:
    async with every_seat_taken(stand), await stand.client() as waiting:
        waiting.send(stand.request())
        await stand.sluice.until_metric("sluice_queue_depth", 1)
        yield


def engine_that(handler: Handler) -> Condition:
    @contextlib.asynccontextmanager
    async def condition(stand: Stand) -> AsyncIterator[None]:
        stand.upstream.handler = handler
        yield

    return condition


@contextlib.asynccontextmanager
async def engine_gone_unnoticed(stand: Stand) -> AsyncIterator[None]:
    """The poller has just found it well, and will be back in a second."""
    await _polled(stand)
    stand.upstream.stop_listening()
    stand.upstream.close_idle()
    yield
    await stand.upstream.listen()
    await _polled(stand)


async def _polled(stand: Stand) -> None:
    """A whole turn of questions, to an engine that is well."""
    asked = len(stand.upstream.probed)
    await stand.upstream.until(lambda: len(stand.upstream.probed) >= asked + 2)
    await stand.sluice.until_metric("sluice_upstream_up", 1)


@contextlib.asynccontextmanager
async def engine_dead(stand: Stand) -> AsyncIterator[None]:
    """As vLLM says it: its server lives, its engine does not."""
    healthy = stand.upstream.probes
    stand.upstream.probes = {b"/health": json_answer(status=503)}
    await stand.sluice.until_metric("sluice_upstream_up", 0)
    yield
    stand.upstream.probes = healthy
    await stand.sluice.until_metric("sluice_upstream_up", 1)


# What is asked, and what is to come back.


@dataclass(frozen=True)
class Case:
    status: int
    type: str
    code: str
    sdk_error: type[openai.APIStatusError]
    condition: Condition = as_usual
    target: str = CHAT
    method: str = "POST"
    body: dict[str, object] = field(default_factory=dict)
    key: str = CLIENT_KEY
    headers: dict[str, str] = field(default_factory=dict)
    is_gated: bool = True


CASES = {
    "queue-full": Case(
        503, OVERLOADED, "queue_full", openai.InternalServerError, every_place_taken
    ),
    "queue-timeout": Case(
        503,
        OVERLOADED,
        "queue_timeout",
        openai.InternalServerError,
        every_seat_taken,
        headers={"x-sluice-queue-timeout": "0.05"},
    ),
    "engine-dead": Case(
        503, OVERLOADED, "upstream_unavailable", openai.InternalServerError, engine_dead
    ),
    "engine-refuses-connections": Case(
        502, ENGINE_FAILED, "upstream_connect", openai.InternalServerError, engine_gone_unnoticed
    ),
    "engine-speaks-no-http": Case(
        502,
        ENGINE_FAILED,
        "upstream_protocol",
        openai.InternalServerError,
        engine_that(raw_answer(b"no HTTP at all\r\n\r\n", "close")),
    ),
    "engine-closes": Case(
        502,
        ENGINE_FAILED,
        "upstream_closed",
        openai.InternalServerError,
        engine_that(close_on_receipt),
    ),
    "engine-resets": Case(
        502,
        ENGINE_FAILED,
        "upstream_closed",
        openai.InternalServerError,
        engine_that(reset_on_receipt),
    ),
    "engine-silent": Case(
        504, ENGINE_FAILED, "upstream_timeout", openai.InternalServerError, engine_that(silent)
    ),
    "bad-key": Case(
        401, INVALID, "invalid_api_key", openai.AuthenticationError, key="other", is_gated=False
    ),
    "unknown-path": Case(
        404, INVALID, "unknown_path", openai.NotFoundError, target="/sleep", is_gated=False
    ),
    "wrong-method": Case(
        405, INVALID, "method_not_allowed", openai.APIStatusError, method="GET", is_gated=False
    ),
    "body-too-large": Case(
        413, INVALID, "body_too_large", openai.APIStatusError, body={"prompt": "x" * 50_000}
    ),
    "too-many-sequences": Case(
        400, INVALID, "too_many_sequences", openai.BadRequestError, body={"n": 5}
    ),
    "bad-own-header": Case(
        400,
        INVALID,
        "bad_request",
        openai.BadRequestError,
        headers={"x-sluice-queue-timeout": "soon"},
        is_gated=False,
    ),
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("name", CASES)
@on_the_stand
async def test_an_own_answer_is_a_whole_openai_error(stand: Stand, name: str, stream: bool) -> None:
    """R60, R42, R23: also for stream=true it is an error by its status, and never an event."""
    case = CASES[name]
    headers = {"Authorization": f"Bearer {case.key}", "x-request-id": f"of-{name}", **case.headers}
    body = {**case.body, "stream": stream} if case.method == "POST" else b""
    async with case.condition(stand), await stand.client() as client:
        answer = await client.ask(stand.request(case.target, body, case.method, headers))
        check_own_answer(answer, case.status, case.type, case.code, is_gated=case.is_gated)
        assert answer.header("x-request-id") == f"of-{name}"
        if answer.header("connection") != "close":
            after = await client.ask(request_bytes("/healthz", b"", "GET"))
            assert after.status == 200, "what follows the answer is no longer understood"
    if case.status in (400, 401, 404, 405, 413):
        assert stand.upstream.seen == []


@pytest.mark.parametrize("name", CASES)
@on_the_stand
async def test_the_sdk_raises_what_an_own_answer_means(stand: Stand, name: str) -> None:
    """R60: the class that applications catch, and the code that they branch on."""
    case = CASES[name]
    body = case.body if case.method == "POST" else None
    async with case.condition(stand):
        with pytest.raises(openai.APIStatusError) as raised:
            await sdk_request(
                stand.sluice.url,
                case.method,
                case.target,
                body,
                api_key=case.key,
                headers={"x-request-id": f"of-{name}", **case.headers},
            )
    error = raised.value
    assert type(error) is case.sdk_error
    assert (error.status_code, error.code, error.type) == (case.status, case.code, case.type)
    assert error.request_id == f"of-{name}"


@pytest.mark.parametrize("reason", ["queue-full", "queue-timeout"])
@on_the_stand
async def test_a_shed_message_says_which_limit_and_what_was_measured(
    stand: Stand, reason: str
) -> None:
    """Whoever reads it in a client's log needs no second place to look."""
    case = CASES[reason]
    async with case.condition(stand), await stand.client() as client:
        answer = await client.ask(stand.request(CHAT, headers=case.headers))
    message = str(answer.error["message"])
    depth = 1 if reason == "queue-full" else 0
    assert "1 of 1 seats" in message
    assert f"{depth} of 1 places in the queue" in message
    waited = "0.00 s" if reason == "queue-full" else "0.05 s"
    assert f"waited {waited}" in message or reason == "queue-timeout"


@on_the_stand
async def test_an_engine_that_stays_down_is_not_worth_a_retry(stand: Stand) -> None:
    """The SDKs obey `x-should-retry: false` at once."""
    async with engine_dead(stand), await stand.client() as client:
        answer = await client.ask(stand.request(CHAT))
    assert answer.header("x-should-retry") == "false"
    assert "answers 503" in str(answer.error["message"])
    assert stand.upstream.seen == []


@on_the_stand
async def test_a_head_request_gets_the_same_answer_without_its_body(stand: Stand) -> None:
    """R42: an own answer to HEAD announces the length and sends nothing."""
    async with await stand.client() as client:
        client.send(stand.request(CHAT, b"", "HEAD"))
        answer = await client.answer(head_request=True)
        assert answer.status == 405
        assert int(answer.header("content-length") or 0) > 0
        assert (await client.ask(request_bytes("/healthz", b"", "GET"))).status == 200


BAD_BODIES = {
    "nothing": b"",
    "no-json": b"model=tiny",
    "cut-off": b'{"prompt": "x"',
    "list": b"[1, 2]",
    "text": b'"prompt"',
    "number": b"7",
    "null": b"null",
    "twice": b"{}{}",
    "bad-utf-8": b'{"prompt": "\xff\xfe"}'[:-1],
    "deep": b'{"messages": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
}


@pytest.mark.parametrize("name", BAD_BODIES)
@on_the_stand
async def test_a_body_that_is_no_json_object_is_refused_in_one_clear_answer(
    stand: Stand, name: str
) -> None:
    """R60, R91"""
    async with await stand.client() as client:
        answer = await client.ask(stand.request(CHAT, BAD_BODIES[name]))
        message = check_own_answer(answer, 400, INVALID, "bad_request", is_gated=True)
        assert "request body" in message
        # The connection is in step: the same client may go on.
        assert (await client.ask(stand.request(CHAT))).status == 200
    assert len(stand.upstream.seen) == 1


# Requests that cannot be read as HTTP, or do not come.

POST = f"POST {CHAT} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {CLIENT_KEY}\r\n".encode()
BAD_FRAMING = {
    "length-and-chunked": b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked-and-length": b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
    "two-lengths": b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    "same-length-twice": b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "length-list": b"Content-Length: 2, 2\r\n\r\n{}",
    "negative-length": b"Content-Length: -2\r\n\r\n{}",
    "signed-length": b"Content-Length: +2\r\n\r\n{}",
    "hexadecimal-length": b"Content-Length: 0x2\r\n\r\n{}",
    "empty-length": b"Content-Length:\r\n\r\n{}",
    "endless-length": b"Content-Length: 99999999999999999999999\r\n\r\n{}",
    "unknown-coding": b"Transfer-Encoding: gzip\r\n\r\n{}",
    "almost-chunked": b"Transfer-Encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "chunked-twice": b"Transfer-Encoding: chunked, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "bad-chunk-size": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "chunk-longer-than-it-says": b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}}\r\n0\r\n\r\n",
    "blank-before-colon": b"Content-Length : 2\r\n\r\n{}",
    "bare-line-feed": b"Content-Length: 2\n\n{}",
    "folded-header": b"X-A: a\r\n b\r\nContent-Length: 2\r\n\r\n{}",
    "nul-in-header": b"X-A: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
    "no-colon": b"X-A\r\nContent-Length: 2\r\n\r\n{}",
}
CODING = r"Transfer-Encoding must be 'chunked', or not be there\."


@pytest.mark.parametrize("name", BAD_FRAMING)
@on_the_stand
async def test_a_request_that_could_be_read_in_two_ways_is_refused(stand: Stand, name: str) -> None:
    """R60, R44: one clear answer, the connection closed after it, nothing at the engine."""
    async with await stand.client() as client:
        answer = await client.ask(POST + BAD_FRAMING[name])
        message = check_own_answer(answer, 400, INVALID, "bad_request")
        assert re.fullmatch(rf"The request is not valid HTTP/1.1: [\w'` -]+\.|{CODING}", message)
        assert answer.header("connection") == "close"
        assert await client.rest() == (b"", False)
    assert stand.upstream.seen == []
    assert await stand.outcomes() in ({}, {"rejected": 1})  # or nothing was known of it yet


BAD_STARTS = {
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "http-2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "http-3.7": b"GET /v1/models HTTP/3.7\r\n\r\n",
    "unknown-method": b"BREW /v1/models HTTP/1.1\r\nHost: gateway\r\n\r\n",
    "no-target": b"GET  HTTP/1.1\r\nHost: gateway\r\n\r\n",
    "two-targets": b"GET /v1/models /v1/models HTTP/1.1\r\nHost: gateway\r\n\r\n",
    "no-path": b"GET v1/models HTTP/1.1\r\nHost: gateway\r\n\r\n",
    "no-host": b"GET http:///v1/models HTTP/1.1\r\nHost: gateway\r\n\r\n",
    "no-such-port": b"GET http://gateway:99999/v1/models HTTP/1.1\r\nHost: gateway\r\n\r\n",
    "raw-bytes-in-path": b"GET /v1/models/\xff HTTP/1.1\r\nHost: gateway\r\n\r\n",
    "prose": b"hello, is anybody there?\r\n\r\n",
}


@pytest.mark.parametrize("name", BAD_STARTS)
@on_the_stand
async def test_what_is_no_http_request_is_told_so(stand: Stand, name: str) -> None:
    """R60"""
    async with await stand.client() as client:
        answer = await client.ask(BAD_STARTS[name])
        check_own_answer(answer, 400, INVALID, "bad_request")
        assert await client.rest() == (b"", False)
    assert stand.upstream.seen == []


@pytest.mark.parametrize("pieces", [1, 5], ids=["at-once", "in-pieces"])
@on_the_stand
async def test_a_head_that_is_too_large_is_refused_however_it_arrives(
    stand: Stand, pieces: int
) -> None:
    """R60: 431"""
    head = POST + b"X-Large: " + b"x" * 70_000 + b"\r\nContent-Length: 2\r\n\r\n{}"
    size = len(head) // pieces + 1
    async with await stand.client() as client:
        for start in range(0, len(head), size):
            client.send(head[start : start + size])
            await asyncio.sleep(0.02)  # a read of its own for each
        answer = await client.answer()
        message = check_own_answer(answer, 431, INVALID, "bad_request")
    assert "65536" in message
    assert stand.upstream.seen == []


@on_the_stand
async def test_a_large_body_is_no_large_head(stand: Stand) -> None:
    """R60: what counts is where the head ends, not how much came with it."""
    async with await stand.client() as client:
        large = b'{"prompt": "%s"}' % (b"x" * 49_000)
        head = b"X-Large: %s\r\nContent-Length: %d\r\n\r\n" % (b"x" * 60_000, len(large))
        assert (await client.ask(POST + head + large)).status == 200


@on_the_stand
async def test_a_head_that_does_not_come_is_not_waited_for(stand: Stand) -> None:
    """R60: 408"""
    async with await stand.client() as client:
        client.send(POST)
        check_own_answer(await client.answer(), 408, INVALID, "body_timeout")
        assert await client.rest() == (b"", False)


@on_the_stand
async def test_a_body_that_does_not_come_is_not_waited_for(stand: Stand) -> None:
    """R60: 408; it held neither seat nor place meanwhile."""
    async with await stand.client() as client:
        client.send(stand.request(CHAT, b"{", headers={"Content-Length": "100"}))
        await asyncio.sleep(0.2)
        assert await stand.sluice.metric("sluice_in_flight") == 0
        assert await stand.sluice.metric("sluice_queue_depth") == 0
        answer = await client.answer()
    message = check_own_answer(answer, 408, INVALID, "body_timeout", is_gated=True)
    assert "SLUICE_BODY_TIMEOUT" in message
    assert "1 bytes came" in message
    assert stand.upstream.seen == []


@on_the_stand
async def test_an_upload_that_stands_still_is_dropped_without_an_error_in_the_log(
    stand: Stand,
) -> None:
    """Whoever reads the log at night must not find an ERROR for each client with a bad line."""
    logged = len(stand.sluice.log)
    async with await stand.client() as client:
        client.send(stand.request(CHAT, b"{", headers={"Content-Length": "100"}))
        assert (await client.answer()).status == 408
        await client.rest()  # ends when we hang up
    # A later request is logged after whatever was said about the one before.
    async with await stand.client() as client:
        client.send(stand.request(headers={"x-request-id": "a-later-one"}))
        assert (await client.answer()).status == 200
    await eventually(lambda: any("a-later-one" in line for line in stand.sluice.log))
    assert not [line for line in stand.sluice.log[logged:] if '"level":"error"' in line]


# Answers that need a gateway of their own.


def test_overload_can_be_429_for_clients_that_know_nothing_else() -> None:
    """R60, R63: the status is a setting; type and code say the same in both."""

    async def scenario() -> None:
        settings = {"max_in_flight": 1, "max_queue_depth": 1, "overload_status": 429}
        async with (
            ScriptedUpstream(Hold()) as upstream,
            gateway(upstream.url, **settings) as sluice,
            await RawClient.connect(sluice.port) as running,
            await RawClient.connect(sluice.port) as waiting,
            await RawClient.connect(sluice.port) as client,
        ):
            running.send(request_bytes())
            await upstream.until(lambda: upstream.inflight == 1)
            brief = {"x-sluice-queue-timeout": "0.05"}
            late = await client.ask(request_bytes(headers=brief))
            check_own_answer(late, 429, "rate_limit_error", "queue_timeout", is_gated=True)
            waiting.send(request_bytes())
            await sluice.until_metric("sluice_queue_depth", 1)
            full = await client.ask(request_bytes())
            check_own_answer(full, 429, "rate_limit_error", "queue_full", is_gated=True)
            with pytest.raises(openai.RateLimitError) as raised:
                await sdk_request(sluice.url, "POST", CHAT, {})
            assert raised.value.code == "queue_full"

    asyncio.run(scenario())


def test_a_gateway_that_drains_says_so() -> None:
    """R60, R102: those who wait, those who come on a kept connection, and those cut off."""

    async def scenario() -> None:
        settings = {"max_in_flight": 1, "max_queue_depth": 1, "drain_timeout": 1}
        async with (
            ScriptedUpstream(silent) as upstream,
            gateway(upstream.url, **settings) as sluice,
            await RawClient.connect(sluice.port) as running,
            await RawClient.connect(sluice.port) as waiting,
            await RawClient.connect(sluice.port) as kept,
        ):
            assert (await kept.ask(request_bytes("/healthz", b"", "GET"))).status == 200
            running.send(request_bytes())
            await upstream.until(lambda: upstream.inflight == 1)
            waiting.send(request_bytes())
            await sluice.until_metric("sluice_queue_depth", 1)
            sluice.terminate()
            answers = [await waiting.answer(), await kept.ask(request_bytes())]
            answers.append(await running.answer())
            for answer in answers:
                check_own_answer(answer, 503, OVERLOADED, "draining", is_gated=True)
                assert answer.header("connection") == "close"
            await upstream.until(lambda: upstream.aborts == 1)
            assert len(upstream.seen) == 1

    asyncio.run(scenario())


def test_a_defect_in_the_gateway_is_an_openai_error_too(caplog: pytest.LogCaptureFixture) -> None:
    """R60: with an upstream client that raises what nobody foresaw."""

    class Broken:
        def exchange(self, _request: object) -> None:
            raise LookupError("a defect, for the test")

        async def aclose(self) -> None:
            """Nothing is open."""

    async def scenario() -> None:
        async with (
            gateway_in_process(Broken(), max_in_flight=1) as port,
            await RawClient.connect(port) as client,
        ):
            request = request_bytes(headers={"x-request-id": "unlucky"})
            answer = await client.ask(request)
            check_own_answer(answer, 500, "server_error", "internal_error", is_gated=True)
            assert answer.header("connection") == "close"
            with pytest.raises(openai.InternalServerError) as raised:
                await sdk_request(f"http://127.0.0.1:{port}", "POST", CHAT, {"stream": True})
            assert raised.value.code == "internal_error"

    asyncio.run(scenario())
    (first, _second) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "unlucky" in first.message
    assert "a defect, for the test" not in first.message


def test_the_health_listener_refuses_in_the_same_form() -> None:
    """R60, R124: also the paths that are not the gateway's own to forward."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(upstream.url, max_in_flight=1) as sluice,
            await RawClient.connect(sluice.admin_port) as admin,
            await RawClient.connect(sluice.port) as public,
        ):
            wrong = await admin.ask(request_bytes("/metrics", b"", "POST"))
            check_own_answer(wrong, 405, INVALID, "method_not_allowed")
            unknown = await admin.ask(request_bytes(CHAT, b"{}"))
            check_own_answer(unknown, 404, INVALID, "unknown_path")
            wrong = await public.ask(request_bytes("/healthz", b"", "POST"))
            check_own_answer(wrong, 405, INVALID, "method_not_allowed")
            assert upstream.seen == []

    asyncio.run(scenario())


def test_the_error_body_is_one_json_object_on_one_line() -> None:
    """R60: log pipelines split at line ends."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream() as upstream,
            gateway(upstream.url, max_in_flight=1) as sluice,
            await RawClient.connect(sluice.port) as client,
        ):
            answer = await client.ask(request_bytes("/sleep"))
            assert b"\n" not in answer.body
            assert json.loads(answer.body)

    asyncio.run(scenario())

"""An answer that breaks off must look broken: on the wire, to the SDK, in the metrics.

Field cases R17 and R24.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import TYPE_CHECKING

import httpx
import openai
import pytest

from tests.support.capacity_probe import probe_capacity
from tests.support.gateway_process import gateway
from tests.support.raw_client import RawClient, ask_once, request_bytes
from tests.support.scripted_upstream import ScriptedUpstream, head, sse_stream
from tests.support.sdk import async_sdk
from tests.support.stand import Stand, on_the_stand, standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.raw_client import RawAnswer
    from tests.support.scripted_answers import Handler
    from tests.support.scripted_upstream import Exchange

SSE = ("content-type", "text/event-stream")
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n'
BODY = EVENT * 3
CODED_BODY = gzip.compress(BODY)


@pytest.fixture(scope="module", params=["pool", "httpx"], name="stand")
def _stand(request: pytest.FixtureRequest) -> Iterator[Stand]:
    with standing(
        max_in_flight=2, max_queue_depth=4, queue_timeout=1, upstream_client=request.param
    ) as stand:
        yield stand


# How an engine can break off after three events.


async def reset(exchange: Exchange) -> None:
    exchange.start_chunked(content_type=SSE[1])
    exchange.chunk(BODY)
    await asyncio.sleep(0.05)
    exchange.reset()


async def no_last_chunk(exchange: Exchange) -> None:
    exchange.start_chunked(content_type=SSE[1])
    exchange.chunk(BODY)
    exchange.close()


async def amid_an_event(exchange: Exchange) -> None:
    exchange.start_chunked(content_type=SSE[1])
    exchange.chunk(BODY + EVENT[:20])
    exchange.close()


async def amid_a_chunk(exchange: Exchange) -> None:
    exchange.start_chunked(content_type=SSE[1])
    exchange.send(b"1000\r\n" + BODY)
    exchange.close()


async def bad_chunk_size(exchange: Exchange) -> None:
    exchange.start_chunked(content_type=SSE[1])
    exchange.chunk(BODY)
    await asyncio.sleep(0.05)
    exchange.send(b"zz\r\n")


async def length_too_long(exchange: Exchange) -> None:
    exchange.send(head(200, [SSE, ("content-length", "1000")]) + BODY)
    exchange.close()


async def no_length_then_reset(exchange: Exchange) -> None:
    exchange.send(head(200, [SSE]) + BODY)
    await asyncio.sleep(0.05)
    exchange.reset()


async def coded(exchange: Exchange) -> None:
    exchange.start_chunked(content_type=SSE[1], headers=[("content-encoding", "gzip")])
    exchange.chunk(CODED_BODY)
    exchange.close()


async def json_in_chunks(exchange: Exchange) -> None:
    exchange.start_chunked(content_type="application/json")
    exchange.chunk(b'{"choices": [')
    exchange.close()


async def json_too_short(exchange: Exchange) -> None:
    exchange.send(head(200, [("content-type", "application/json"), ("content-length", "99")]))
    exchange.send(b'{"choices": [')
    exchange.close()


async def nothing_but_the_head(exchange: Exchange) -> None:
    exchange.start_chunked(content_type=SSE[1])
    exchange.close()


PLAIN_SSE = [
    reset,
    no_last_chunk,
    amid_an_event,
    amid_a_chunk,
    bad_chunk_size,
    no_length_then_reset,
    nothing_but_the_head,
]
# Where an event would corrupt what is there, or overrun the length that was announced.
NOT_TO_BE_ADDED_TO = [length_too_long, coded, json_in_chunks, json_too_short]


async def broken(stand: Stand, handler: Handler) -> tuple[RawAnswer, RawClient]:
    """What came, until the gateway closed the connection."""
    stand.upstream.handler = handler
    client = await stand.client()
    client.send(stand.request(body={"stream": True}))
    async with asyncio.timeout(5):
        return await client.answer(), client


@pytest.mark.parametrize("handler", PLAIN_SSE)
@on_the_stand
async def test_a_broken_stream_ends_in_an_error_event_and_is_not_complete(
    stand: Stand, handler: Handler
) -> None:
    """R17: no [DONE], no last chunk; and the SDKs raise on the event."""
    answer, client = await broken(stand, handler)
    async with client:
        assert answer.status == 200
        assert not answer.complete
        assert await client.reader.read() == b""
    if handler is not nothing_but_the_head:
        assert answer.body.startswith(BODY)
    assert b"[DONE]" not in answer.body
    last = answer.body.strip().rpartition(b"\n")[2]
    error = json.loads(last.removeprefix(b"data: "))["error"]
    assert error["type"] == "upstream_error"
    assert error["code"] in ("upstream_closed", "upstream_protocol")
    assert set(error) == {"message", "type", "param", "code"}
    assert await stand.outcomes() == {"upstream_error": 1}


@pytest.mark.parametrize("handler", NOT_TO_BE_ADDED_TO)
@on_the_stand
async def test_other_answers_are_broken_off_as_they_are(stand: Stand, handler: Handler) -> None:
    """R17: bytes of ours would be taken for the engine's."""
    answer, client = await broken(stand, handler)
    async with client:
        assert not answer.complete
        assert await client.reader.read() == b""
    sent = {length_too_long: BODY, coded: CODED_BODY}
    assert answer.body == sent.get(handler, b'{"choices": [')
    assert await stand.outcomes() == {"upstream_error": 1}


@pytest.mark.parametrize("handler", [reset, coded, length_too_long, json_in_chunks, json_too_short])
@on_the_stand
async def test_an_http_client_raises_on_a_broken_answer(stand: Stand, handler: Handler) -> None:
    """R17"""
    stand.upstream.handler = handler
    async with httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(f"{stand.sluice.url}/v1/completions", json={})


async def read_with_sdk(stand: Stand, chunks: list[object]) -> None:
    async with async_sdk(stand.sluice.url) as sdk:
        stream = await sdk.chat.completions.create(model="m", messages=[], stream=True)
        async for chunk in stream:
            chunks.append(chunk)  # noqa: PERF401 - those before the error count


@pytest.mark.parametrize("handler", [reset, no_last_chunk, amid_a_chunk, bad_chunk_size])
@on_the_stand
async def test_the_sdk_raises_the_error_of_a_broken_stream(stand: Stand, handler: Handler) -> None:
    """R17: after the events that did come, and with our code."""
    stand.upstream.handler = handler
    chunks: list[object] = []
    with pytest.raises(openai.APIError) as raised:
        await read_with_sdk(stand, chunks)
    assert len(chunks) == 3
    assert raised.value.code in ("upstream_closed", "upstream_protocol")


@on_the_stand
async def test_the_sdk_raises_when_an_event_is_cut_in_two(stand: Stand) -> None:
    """R17: it meets half an event first, and says that this is no JSON."""
    stand.upstream.handler = amid_an_event
    chunks: list[object] = []
    with pytest.raises((openai.APIError, json.JSONDecodeError)):
        await read_with_sdk(stand, chunks)
    assert len(chunks) == 3


@pytest.mark.parametrize("handler", [reset, no_last_chunk, json_in_chunks])
@on_the_stand
async def test_an_http_1_0_client_sees_a_reset(stand: Stand, handler: Handler) -> None:
    """R17: its body ends with the connection, so an orderly end would look complete."""
    stand.upstream.handler = handler
    async with await stand.client() as client:
        client.send(stand.request().replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        _, was_reset = await client.rest()
    assert was_reset


@on_the_stand
async def test_ten_streams_that_break_are_ten_failures_and_no_success(stand: Stand) -> None:
    """R17: 200 was sent ten times, and means nothing."""
    for _ in range(10):
        _, client = await broken(stand, reset)
        client.close()
    assert await stand.outcomes() == {"upstream_error": 10}


# Limits on the engine's time.


async def five_events_and_silence(exchange: Exchange) -> None:
    exchange.start_chunked(content_type=SSE[1])
    for _ in range(5):
        exchange.chunk(EVENT)
        await asyncio.sleep(0.1)
    await asyncio.Event().wait()


@pytest.mark.timeout(30)
def test_a_flowing_stream_is_not_cut_and_a_silent_one_is() -> None:
    """R24: 5 s of events at limits of 1 s; then five events, and nothing more."""

    async def scenario(upstream_client: str) -> None:
        async with (
            ScriptedUpstream(sse_stream(20, 0.25)) as upstream,
            gateway(
                upstream.url,
                upstream_client=upstream_client,
                max_in_flight=1,
                first_byte_timeout=1,
                idle_timeout=1,
            ) as sluice,
        ):
            flowing = await ask_once(sluice.port, request_bytes())
            assert flowing.complete
            assert flowing.body.count(b"data: ") == 21

            upstream.handler = five_events_and_silence
            silent = await ask_once(sluice.port, request_bytes())
            assert not silent.complete
            assert silent.body.count(EVENT) == 5
            assert b'"upstream_timeout"' in silent.body
            assert 1.4 < await aborted_after_s(upstream) < 4, "events for 0.4 s, then the limit"
            await probe_capacity(sluice, upstream, 1)

    async def both() -> None:
        await asyncio.gather(scenario("pool"), scenario("httpx"))

    asyncio.run(both())


async def aborted_after_s(upstream: ScriptedUpstream) -> float:
    """How long the engine worked on its last request."""
    request = upstream.seen[-1]
    await upstream.until(lambda: request.ended_at is not None)
    assert request.aborted
    assert request.ended_at is not None
    return request.ended_at - request.at


@pytest.mark.parametrize("upstream_client", ["pool", "httpx"])
def test_a_total_limit_if_there_is_one_ends_even_a_flowing_stream(upstream_client: str) -> None:
    """R24: it is a limit of its own, and off unless it is set."""

    async def scenario() -> None:
        async with (
            ScriptedUpstream(sse_stream(1000, 0.1)) as upstream,
            gateway(
                upstream.url, upstream_client=upstream_client, max_in_flight=1, total_timeout=1
            ) as sluice,
        ):
            cut = await ask_once(sluice.port, request_bytes())
            assert not cut.complete
            assert b'"upstream_timeout"' in cut.body
            assert 0.9 < await aborted_after_s(upstream) < 3
            await probe_capacity(sluice, upstream, 1)

    asyncio.run(scenario())

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.edge.client_connection import ConnectionRefusal
from proxy.edge.engine import LifeSign
from proxy.edge.relay import BrokenConnection, Relay
from proxy.edge.response_cycle import BODY_FOLLOWS
from proxy.upstream.errors import UpstreamClosedError
from tests.support.chunked_response import ChunkedResponse
from tests.support.client_messages import ClientLine, ClientMessages, SentMessages
from tests.support.virtual_time import now, run, settle

if TYPE_CHECKING:
    from starlette.types import Message

SSE = (b"content-type", b"text/event-stream; charset=utf-8")
JSON = (b"content-type", b"application/json")


def relay_over(line: ClientLine, http_version: str = "1.1") -> Relay:
    return Relay(line.scope(http_version=http_version), line.sent.send, now)


def broken() -> ChunkedResponse:
    return ChunkedResponse([b"a"], error=UpstreamClosedError("gone"))


def at_end() -> None:
    """What the gateway does when the last piece is about to go out."""


def bodies(sent: SentMessages) -> list[tuple[bytes, bool]]:
    return [(message["body"], message["more_body"]) for message in sent[1:]]


def test_chunks_pass_one_for_one() -> None:
    async def scenario() -> None:
        line = ClientLine()
        relay = relay_over(line)
        response = ChunkedResponse([b"a", b"\xff\x00", b"c"], status=201)
        await relay.pass_on(response, [JSON, JSON], at_end)
        assert line.sent[0]["status"] == 201
        assert line.sent[0]["headers"] == [JSON, JSON]
        assert bodies(line.sent) == [
            (b"a", True),
            (b"\xff\x00", True),
            (b"c", True),
            (b"", False),
        ]
        assert relay.body_bytes == 4

    run(scenario())


def test_a_last_chunk_that_is_known_to_be_the_last_needs_no_empty_one_after_it() -> None:
    async def scenario() -> None:
        line = ClientLine()
        response = ChunkedResponse([b"a", b"b"], knows_its_end=True)
        await relay_over(line).pass_on(response, [], at_end)
        assert bodies(line.sent) == [(b"a", True), (b"b", False)]

    run(scenario())


@pytest.mark.parametrize("chunks", [[], [b"a"]])
def test_the_head_waits_for_a_first_chunk_only_when_that_is_there(chunks: list[bytes]) -> None:
    async def scenario() -> None:
        line = ClientLine()
        await relay_over(line).pass_on(ChunkedResponse(chunks), [], at_end)
        assert line.sent[0][BODY_FOLLOWS] is bool(chunks)

    run(scenario())


def test_the_next_chunk_is_read_once_the_server_has_taken_this_one() -> None:
    async def scenario() -> None:
        may_send = asyncio.Event()

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body":
                await may_send.wait()

        response = ChunkedResponse([b"a", b"b"])
        relay = Relay({"http_version": "1.1"}, send, now)
        passing = asyncio.create_task(relay.pass_on(response, [], at_end))
        await settle()
        assert response.reads == 1
        may_send.set()
        await passing
        assert response.reads == 3

    run(scenario())


def test_a_client_without_room_is_waited_for() -> None:
    async def scenario() -> None:
        line = ClientLine()
        line.has_room = False
        response = ChunkedResponse([b"a", b"b"])
        passing = asyncio.create_task(relay_over(line).pass_on(response, [], at_end))
        await settle()
        assert response.reads == 1
        line.has_room = True
        await passing
        assert bodies(line.sent) == [(b"a", True), (b"b", True), (b"", False)]

    run(scenario())


def test_the_end_is_told_before_the_last_piece_goes_out() -> None:
    async def scenario() -> None:
        line = ClientLine()
        pieces_by_then: list[int] = []
        await relay_over(line).pass_on(
            ChunkedResponse([b"a", b"b"], knows_its_end=True),
            [],
            lambda: pieces_by_then.append(len(line.sent) - 1),
        )
        assert pieces_by_then == [1]

    run(scenario())


def test_another_server_than_ours_gets_the_same_by_events() -> None:
    async def scenario() -> None:
        sent = SentMessages()
        relay = Relay({"http_version": "1.1"}, sent.send, now)
        await relay.pass_on(ChunkedResponse([b"a", b"b"]), [JSON], at_end)
        assert bodies(sent) == [(b"a", True), (b"b", True), (b"", False)]
        assert relay.body_bytes == 2

    run(scenario())


@pytest.mark.parametrize("ours", [True, False])
def test_the_head_and_each_piece_are_signs_of_life(ours: bool) -> None:
    async def scenario() -> None:
        life_sign = LifeSign()
        seen: list[bool] = []

        class Watched(ChunkedResponse):
            async def read(self) -> bytes:
                seen.append(life_sign.take())
                return await super().read()

        scope = ClientLine().scope() if ours else {"http_version": "1.1"}
        relay = Relay(scope, SentMessages().send, now)
        await relay.pass_on(Watched([b"a", b"b"]), [], at_end, life_sign)
        assert (seen, life_sign.take()) == ([True, True, True], True)

    run(scenario())


def test_the_first_byte_is_timed_when_it_comes() -> None:
    async def scenario() -> None:
        class Slow(ChunkedResponse):
            async def read(self) -> bytes:
                await asyncio.sleep(5)
                return await super().read()

        relay = relay_over(ClientLine())
        assert relay.first_byte_at is None
        await relay.pass_on(Slow([b"a", b"b"]), [], at_end)
        assert (relay.first_byte_at, now()) == (5, 15)

    run(scenario())


def test_an_error_of_the_engine_comes_out_and_what_was_sent_stays_sent() -> None:
    async def scenario() -> None:
        line = ClientLine()
        relay = relay_over(line)
        with pytest.raises(UpstreamClosedError):
            await relay.pass_on(
                ChunkedResponse([b"a"], error=UpstreamClosedError("gone")), [SSE], at_end
            )
        assert bodies(line.sent) == [(b"a", True)]
        assert relay.started
        assert relay.speaks_sse

    run(scenario())


@pytest.mark.parametrize(
    ("headers", "speaks"),
    [
        ([SSE], True),
        ([(b"Content-Type", b"TEXT/EVENT-STREAM")], True),
        ([SSE, (b"content-length", b"10")], False),
        ([SSE, (b"Content-Length", b"10")], False),
        ([SSE, (b"Content-Encoding", b"gzip")], False),
        ([JSON], False),
        ([JSON, SSE], False),
        ([], False),
    ],
)
def test_an_event_can_be_added_to_plain_sse_of_open_length_only(
    headers: list[tuple[bytes, bytes]], speaks: bool
) -> None:
    async def scenario() -> None:
        relay = relay_over(ClientLine())
        length = next((int(v) for n, v in headers if n.lower() == b"content-length"), 1)
        await relay.pass_on(ChunkedResponse([b"x" * length]), headers, at_end)
        assert relay.speaks_sse is speaks

    run(scenario())


@pytest.mark.parametrize(
    ("http_version", "headers", "ended"),
    [
        ("1.0", [], ["will end by closing"]),
        ("1.0", [(b"content-length", b"1")], []),
        ("1.1", [], []),
    ],
)
def test_an_old_client_reads_a_body_of_open_length_to_the_connections_end(
    http_version: str, headers: list[tuple[bytes, bytes]], ended: list[str]
) -> None:
    async def scenario() -> None:
        line = ClientLine()
        await relay_over(line, http_version).pass_on(ChunkedResponse([b"x"]), headers, at_end)
        assert line.ended == ended

    run(scenario())


def test_an_old_client_of_a_server_without_the_extension_is_served_as_it_can() -> None:
    async def scenario() -> None:
        sent = SentMessages()
        relay = Relay({"http_version": "1.0"}, sent.send, now)
        await relay.pass_on(ChunkedResponse([b"x"]), [], at_end)
        assert sent.is_complete

    run(scenario())


def test_breaking_off_sends_the_last_words_and_closes_without_the_end_of_the_body() -> None:
    async def scenario() -> None:
        line = ClientLine()
        relay = relay_over(line)
        await relay.break_off(line.client.receive, b"data: {}\n\n", 60)
        assert list(line.sent) == [
            {"type": "http.response.body", "body": b"data: {}\n\n", "more_body": True}
        ]
        assert line.ended == ["close"]

    run(scenario())


def test_breaking_off_without_last_words_sends_nothing() -> None:
    async def scenario() -> None:
        line = ClientLine()
        await relay_over(line).break_off(line.client.receive, b"", 60)
        assert list(line.sent) == []
        assert line.ended == ["close"]

    run(scenario())


def test_a_body_that_ends_with_the_connection_is_broken_off_by_a_reset() -> None:
    """A plain close would be its proper end."""

    async def scenario() -> None:
        line = ClientLine()
        relay = relay_over(line, "1.0")
        with pytest.raises(UpstreamClosedError):
            await relay.pass_on(
                ChunkedResponse([b"a"], error=UpstreamClosedError("gone")), [SSE], at_end
            )
        await relay.break_off(line.client.receive, b"", 60)
        assert line.ended == ["will end by closing", "abort"]

    run(scenario())


def test_a_client_that_does_not_read_its_last_words_is_dropped() -> None:
    async def scenario() -> None:
        line = ClientLine(closes=False)

        async def stuck(_message: Message) -> None:
            await asyncio.Event().wait()

        relay = Relay(line.scope(), stuck, now)
        await relay.break_off(line.client.receive, b"data: {}\n\n", 60)
        assert (line.ended, now()) == (["abort"], 60)

    run(scenario())


def test_a_connection_that_does_not_close_is_reset() -> None:
    async def scenario() -> None:
        line = ClientLine(closes=False)
        await relay_over(line).break_off(line.client.receive, b"", 60)
        assert (line.ended, now()) == (["close", "abort"], 60)

    run(scenario())


def test_a_server_that_offers_no_way_to_break_off_gets_an_exception() -> None:
    async def scenario() -> None:
        relay = Relay({"http_version": "1.1"}, SentMessages().send, now)
        with pytest.raises(BrokenConnection):
            await relay.break_off(ClientMessages().receive, b"data: {}\n\n", 60)

    run(scenario())


def test_a_client_that_does_not_stop_sending_can_be_dropped() -> None:
    """And is gone afterwards, so that the server has nothing to say about an answer without end."""

    async def scenario() -> None:
        line = ClientLine()
        line.client.body(b"more", more=True)
        await relay_over(line).drop(line.client.receive)
        assert line.ended == ["abort"]
        assert line.client.was_told
        # A server that offers no way to: no error either.
        relay = Relay({"http_version": "1.1"}, line.sent.send, now)
        await relay.drop(ClientMessages().receive)

    run(scenario())


def test_what_the_server_itself_has_answered_is_known() -> None:
    async def scenario() -> None:
        line = ClientLine()
        assert relay_over(line).refusal is None
        line.refusal = ConnectionRefusal(400, "bad_request")
        assert relay_over(line).refusal == ConnectionRefusal(400, "bad_request")
        assert Relay({"http_version": "1.1"}, line.sent.send, now).refusal is None

    run(scenario())

from __future__ import annotations

import asyncio
import socket
from typing import Any, Self

import httpx
import pytest

from proxy.upstream.httpx_attempt import Attempt, shut_down
from proxy.upstream.port import UpstreamRequest, UpstreamTimeouts
from proxy.upstream.request_sender import SLICE_BYTES
from tests.support.descriptors import no_descriptors
from tests.support.virtual_time import after_timers, hold_up, now, run, settle

ORIGIN = httpx.URL("http://engine:8000/")
TIMEOUTS = UpstreamTimeouts(connect_s=5, first_byte_s=600, idle_s=120)


def attempt_of(request: UpstreamRequest | None = None) -> Attempt:
    return Attempt(request or UpstreamRequest("GET", b"/", []), ORIGIN, TIMEOUTS)


async def told(attempt: Attempt, event: str, value: object = None) -> None:
    """httpcore traces an event."""
    await attempt.request.extensions["trace"](event, {"return_value": value})


class Stream:
    """What httpcore would call a connection, over one end of a socket pair."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - as httpcore has it
        assert info == "socket"
        return self.ours

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ours.close()
        self.theirs.close()


@pytest.mark.parametrize(
    "target", [b"/v1/../sleep", b"//v1", b"/v1/a%2Fb?x=1&&x=", "/モデル".encode(), b"/?#"]
)
def test_the_target_is_out_of_reach_of_httpx(target: bytes) -> None:
    async def scenario() -> None:
        url = attempt_of(UpstreamRequest("GET", target, [])).request.url
        assert (url.raw_path, url.raw_host, url.port) == (target, b"engine", 8000)

    run(scenario())


def test_the_fields_are_ours_and_httpx_adds_none() -> None:
    async def scenario() -> None:
        request = UpstreamRequest(
            "POST", b"/", [(b"Host", b"h"), (b"x", b" y\t"), (b"x", b"")], b"{}"
        )
        assert attempt_of(request).request.headers.raw == [
            (b"Host", b"h"),
            (b"x", b"y"),
            (b"x", b""),
            (b"content-length", b"2"),
        ]

    run(scenario())


def test_a_large_body_goes_out_in_slices() -> None:
    async def scenario() -> None:
        body = b"x" * (2 * SLICE_BYTES + 1)
        stream = attempt_of(UpstreamRequest("POST", b"/", [], body)).request.stream
        assert isinstance(stream, httpx.AsyncByteStream)
        assert [len(piece) async for piece in stream] == [SLICE_BYTES, SLICE_BYTES, 1]

    run(scenario())


def test_an_attempt_is_fresh_when_it_opened_a_connection() -> None:
    async def scenario() -> None:
        attempt = attempt_of()
        await told(attempt, "http11.send_request_headers.started")
        assert not attempt.is_fresh
        await told(attempt, "connection.connect_tcp.started")
        assert attempt.is_fresh

    run(scenario())


def test_the_first_byte_is_waited_for_from_the_moment_the_request_is_sent() -> None:
    async def scenario() -> None:
        attempt = attempt_of()

        async def exchange() -> None:
            async with attempt.first_byte:
                await asyncio.sleep(1000)
                await told(attempt, "http11.send_request_body.complete")
                await asyncio.sleep(1000)

        with pytest.raises(TimeoutError):
            await exchange()
        assert now() == 1600

    run(scenario())


def test_a_first_byte_that_came_while_the_loop_was_held_up_came_in_time() -> None:
    async def scenario() -> None:
        attempt = attempt_of()
        came = asyncio.Event()

        def held_up() -> None:
            hold_up(60)
            after_timers(came.set)

        asyncio.get_running_loop().call_at(590, held_up)
        async with attempt.first_byte:
            await told(attempt, "http11.send_request_body.complete")
            await came.wait()
        assert now() == 650

    run(scenario())


def test_what_is_read_is_not_timed_by_httpcore() -> None:
    """Which would not excuse a limit that is noticed late."""

    async def scenario() -> None:
        limits = attempt_of().request.extensions["timeout"]
        assert limits == {"connect": 5, "write": 120, "read": None, "pool": None}

    run(scenario())


async def for_ever() -> httpx.Response:
    await asyncio.Event().wait()
    raise AssertionError


def test_abandoning_shuts_down_a_fresh_connection_and_cancels_nothing() -> None:
    async def scenario() -> None:
        with Stream() as stream:
            attempt, sending = attempt_of(), asyncio.create_task(for_ever())
            await told(attempt, "connection.connect_tcp.started")
            await told(attempt, "connection.connect_tcp.complete", stream)
            attempt.abandon(sending)
            assert stream.theirs.recv(1) == b""
            await settle()
            assert not sending.done()
            sending.cancel()

    run(scenario())


def test_abandoning_while_it_connects_shuts_down_what_comes_of_it() -> None:
    async def scenario() -> None:
        with Stream() as stream:
            attempt, sending = attempt_of(), asyncio.create_task(for_ever())
            await told(attempt, "connection.connect_tcp.started")
            attempt.abandon(sending)
            await settle()
            assert not sending.done()
            await told(attempt, "connection.connect_tcp.complete", stream)
            assert stream.theirs.recv(1) == b""
            sending.cancel()

    run(scenario())


def test_abandoning_on_a_reused_connection_cancels() -> None:
    async def scenario() -> None:
        attempt, sending = attempt_of(), asyncio.create_task(for_ever())
        attempt.abandon(sending)
        await settle()
        assert sending.cancelled()

    run(scenario())


def test_shutting_down_a_closed_connection_is_no_error() -> None:
    with Stream() as stream:
        stream.ours.close()
        shut_down(stream)


def test_tls_asks_for_the_name_of_a_server_that_is_reached_by_its_address() -> None:
    async def scenario() -> None:
        request = UpstreamRequest("GET", b"/", [])
        origin = httpx.URL("https://10.0.0.1/")
        named = Attempt(request, origin, TIMEOUTS, "engine").request
        assert named.extensions["sni_hostname"] == "engine"
        assert "sni_hostname" not in attempt_of().request.extensions

    run(scenario())


def test_a_connection_is_shut_down_though_nothing_can_be_opened() -> None:
    """Else an engine would go on generating for a client that has left."""
    with Stream() as stream, no_descriptors():
        shut_down(stream)
        assert stream.theirs.recv(1) == b""


def test_one_that_is_closed_need_not_be_shut_down() -> None:
    with Stream() as stream:
        stream.ours.close()
        shut_down(stream)

"""Applications on real sockets in this process."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from proxy.edge import listeners as module
from proxy.edge.connection import ConnectionLimits
from proxy.edge.listeners import listening
from proxy.edge.server import Address, bind
from proxy.upstream.late_expiry import GRACE_S
from tests.support.virtual_time import hold_up, run

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp, Receive, Scope, Send

LIMITS = ConnectionLimits(request_s=30, write_s=60, idle_s=75)
GET = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


def says(word: bytes) -> ASGIApp:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"%d" % len(word))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": word, "more_body": False})

    return app


def bound() -> socket.socket:
    return bind(Address("127.0.0.1", 0, ""))


async def told(one: socket.socket, request: bytes = GET) -> bytes:
    reader, writer = await asyncio.open_connection(*one.getsockname())
    with contextlib.closing(writer):
        writer.write(request)
        return await reader.read()


def test_each_application_is_served_on_its_socket_until_the_block_ends() -> None:
    async def scenario() -> None:
        sockets = bound(), bound()
        where = sockets[0].getsockname()
        async with listening((says(b"one"), says(b"two")), sockets, LIMITS) as serving:
            assert (await told(sockets[0])).endswith(b"one")
            assert (await told(sockets[1])).endswith(b"two")
            assert not any(task.done() for task in serving)
        assert all(task.done() for task in serving)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*where)

    asyncio.run(scenario())


def test_slow_clients_are_swept_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SWEEP_EVERY_S", 0.01)
    limits = ConnectionLimits(request_s=0.05, write_s=60, idle_s=75)

    async def scenario() -> None:
        one = bound()
        async with listening((says(b"x"),), (one,), limits):
            assert (await told(one, b"GET / HT")).startswith(b"HTTP/1.1 408 ")

    asyncio.run(scenario())


def test_what_came_while_the_loop_was_held_up_is_read_before_anybody_is_judged() -> None:
    class Watched:
        def __init__(self) -> None:
            self.swept_at: list[float] = []

        def sweep(self, at: float, _limits: ConnectionLimits) -> None:
            self.swept_at.append(at)

    async def scenario() -> None:
        asyncio.get_running_loop().call_at(1.5, hold_up, 10)
        watched = Watched()
        sweeping = asyncio.create_task(module._sweep([watched], LIMITS))  # type: ignore[list-item]  # all that it asks of one
        await asyncio.sleep(12.9)
        sweeping.cancel()
        await asyncio.wait([sweeping])
        assert watched.swept_at == [1, 11.5 + GRACE_S, 12.5 + GRACE_S]

    run(scenario())


def test_a_listener_that_fails_says_so_at_the_end() -> None:
    async def scenario() -> None:
        closed = bound()
        closed.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            async with listening((says(b"x"),), (closed,), LIMITS) as serving:
                assert serving[0].done()

    asyncio.run(scenario())


class Endless:
    """Writes as long as it may; `is_stuck` once nothing moves any more."""

    def __init__(self) -> None:
        self.written = 0

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for self.written in range(1000):  # what is sent after the client has gone goes nowhere
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})

    async def is_stuck(self) -> None:
        seen = -1
        while seen < self.written:
            seen = self.written
            for _ in range(100):
                await asyncio.sleep(0)


def test_at_the_end_who_does_not_read_is_cut_off_and_that_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_FLUSH_S", 0.05)

    async def scenario() -> None:
        one, endless = bound(), Endless()
        async with listening((endless,), (one,), LIMITS):
            _, writer = await asyncio.open_connection(*one.getsockname(), limit=1024)
            writer.write(GET)
            await asyncio.sleep(0)
            while not endless.written:
                await asyncio.sleep(0)
            await endless.is_stuck()
        writer.close()

    asyncio.run(scenario())
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []

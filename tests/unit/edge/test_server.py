"""Two listeners from their binding to the end of the drain, on real sockets in this process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from typing import TYPE_CHECKING, Self

import pytest

from proxy.edge.client_watch import ClientWatch, Interrupted, LateListeners
from proxy.edge.connection import ConnectionLimits
from proxy.edge.drain import Drain
from proxy.edge.server import Address, BindError, Server, bind
from proxy.edge.stop_signal import exit_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import Receive, Scope, Send

LOOPBACK = Address("127.0.0.1", 0, "SLUICE_HOST, SLUICE_PORT")
GET = b"GET /%b HTTP/1.1\r\nhost: x\r\n\r\n"
GET_AND_CLOSE = b"GET /%b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"


async def says_its_name(name: bytes, send: Send) -> None:
    headers = [(b"content-length", b"%d" % len(name))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": name, "more_body": False})


async def admin(_scope: Scope, _receive: Receive, send: Send) -> None:
    await says_its_name(b"admin", send)


class Public:
    """`/wait` is answered when it is let go or the drain ends it, anything else at once."""

    def __init__(self, drain: Drain) -> None:
        self._drain = drain
        self.may_end = asyncio.Event()
        self.waiting = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = b"public"
        if scope["path"] == "/wait":
            name = await self._wait(receive)
        await says_its_name(name, send)

    async def _wait(self, receive: Receive) -> bytes:
        try:
            async with ClientWatch(receive, LateListeners(asyncio.get_running_loop())) as watch:
                self._drain.enter(watch)
                self.waiting.set()
                try:
                    await self.may_end.wait()
                finally:
                    self._drain.leave(watch)
        except Interrupted as interrupted:
            return interrupted.interruption.value.encode()
        return b"waited"


class Running:
    """A server in a task of its own, its signal handlers taken away at the end."""

    def __init__(
        self,
        drain_timeout_s: float = 30,
        at_second_signal: Callable[[int], None] = exit_at_once,
        ends_with: Sequence[asyncio.Future[None]] = (),
    ) -> None:
        self.drain = Drain()
        self.public = Public(self.drain)
        self._sockets = bind(LOOPBACK), bind(LOOPBACK)
        self.port, self.admin_port = (one.getsockname()[1] for one in self._sockets)
        self._ready = asyncio.Event()
        server = Server(
            apps=(self.public, admin),
            drain=self.drain,
            begin_drain=self.drain.begin,
            drain_timeout_s=drain_timeout_s,
            connection_limits=ConnectionLimits(request_s=30, write_s=60, idle_s=75),
            at_second_signal=at_second_signal,
            ends_with=ends_with,
        )
        self.task = asyncio.create_task(server.run(self._sockets, on_ready=self._ready.set))

    async def __aenter__(self) -> Self:
        await self._ready.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.public.may_end.set()
        if not self.task.done():
            os.kill(os.getpid(), signal.SIGTERM)
        await self.task
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().remove_signal_handler(number)

    async def ask(self, path: bytes = b"", port: int | None = None) -> bytes:
        """The body of the answer, on a connection that is closed after it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port or self.port)
        with contextlib.closing(writer):
            writer.write(GET_AND_CLOSE % path)
            return (await reader.read()).partition(b"\r\n\r\n")[2]


# Binding ---------------------------------------------------------------------------------------


def test_a_bound_socket_has_the_port_that_was_asked_for_or_a_free_one() -> None:
    with bind(LOOPBACK) as any_port:
        port = any_port.getsockname()[1]
        assert port != 0
    with bind(Address("127.0.0.1", port, "")) as again:
        assert again.getsockname() == ("127.0.0.1", port)


def test_a_taken_port_is_named_with_the_settings_that_chose_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BindError) as caught:
            bind(Address("127.0.0.1", port, "SLUICE_HOST, SLUICE_PORT"))
    message = str(caught.value)
    assert f"127.0.0.1:{port} (SLUICE_HOST, SLUICE_PORT)" in message
    assert "Address already in use" in message


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host", "x" * 64, "a..b"])
def test_a_host_that_is_not_here_is_named(host: str) -> None:
    with pytest.raises(BindError, match=f"cannot listen on {host}:0"):
        bind(Address(host, 0, ""))


# Serving ---------------------------------------------------------------------------------------


def test_each_listener_serves_its_own_app_once_it_says_that_it_does() -> None:
    async def scenario() -> None:
        async with Running() as running:
            assert await running.ask() == b"public"
            assert await running.ask(port=running.admin_port) == b"admin"

    asyncio.run(scenario())


def test_nothing_tells_which_server_this_is() -> None:
    async def scenario() -> None:
        async with Running() as running:
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            with contextlib.closing(writer):
                writer.write(GET_AND_CLOSE % b"")
                head = (await reader.read()).partition(b"\r\n\r\n")[0].lower()
            assert b"server:" not in head
            assert b"uvicorn" not in head

    asyncio.run(scenario())


# Ending ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_runs_finish_and_then_ends_it_all(number: signal.Signals) -> None:
    async def scenario() -> None:
        async with Running() as running:
            waiting = asyncio.create_task(running.ask(b"wait"))
            await running.public.waiting.wait()
            os.kill(os.getpid(), number)
            while not running.drain.begun:
                await asyncio.sleep(0)
            assert not running.task.done()
            assert await running.ask(port=running.admin_port) == b"admin"  # probes still ask
            running.public.may_end.set()
            assert await waiting == b"waited"
            await running.task
            with pytest.raises(ConnectionRefusedError):
                await running.ask()

    asyncio.run(scenario())


def test_what_outlives_the_drain_is_ended() -> None:
    async def scenario() -> None:
        async with Running(drain_timeout_s=0.01) as running:
            waiting = asyncio.create_task(running.ask(b"wait"))
            await running.public.waiting.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            assert await waiting == b"drain_ended"
            await running.task

    asyncio.run(scenario())


def test_an_idle_connection_does_not_hold_the_process_up() -> None:
    async def scenario() -> None:
        async with Running() as running:
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            with contextlib.closing(writer):
                writer.write(GET % b"")
                await reader.readuntil(b"public")
                os.kill(os.getpid(), signal.SIGTERM)
                assert await reader.read() == b""
                await running.task

    asyncio.run(scenario())


def test_whoever_runs_it_may_say_what_a_second_signal_does() -> None:
    """A worker goes on draining: its parent ends it when it must."""
    numbers: list[int] = []

    async def scenario() -> None:
        async with Running(at_second_signal=numbers.append) as running:
            waiting = asyncio.create_task(running.ask(b"wait"))
            await running.public.waiting.wait()
            os.kill(os.getpid(), signal.SIGTERM)
            while not running.drain.begun:
                await asyncio.sleep(0)
            assert numbers == []
            os.kill(os.getpid(), signal.SIGINT)
            while not numbers:
                await asyncio.sleep(0)
            assert numbers == [signal.SIGINT]
            running.public.may_end.set()
            assert await waiting == b"waited"

    asyncio.run(scenario())


def test_it_drains_as_well_when_what_it_ends_with_ends() -> None:
    async def scenario() -> None:
        neighbour = asyncio.get_running_loop().create_future()
        async with Running(ends_with=[neighbour]) as server:
            asking = asyncio.create_task(server.ask(b"wait"))
            await server.public.waiting.wait()
            neighbour.set_result(None)
            while not server.drain.begun:
                await asyncio.sleep(0.005)
            server.public.may_end.set()
            assert await asking == b"waited"
            await server.task

    asyncio.run(scenario())

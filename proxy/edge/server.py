"""Runs the two listeners in one event loop, from binding the sockets to the end of the drain."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

from proxy.edge.connection import ConnectionLimits, SluiceProtocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import ASGIApp

    from proxy.edge.drain import Drain

_log = logging.getLogger("sluice.server")

_SWEEP_EVERY_S = 1.0
# For bytes that are still in socket buffers once every request is over.
_FLUSH_S = 2
_BACKLOG = 2048
_NO_RELOAD = "SIGHUP: settings are read once, at start; restart to change them"


class BindError(Exception):
    """A listener's address cannot be used; the message says which setting and why."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. `settings` names the variables, for the error message."""

    host: str
    port: int
    settings: str


def bind(address: Address) -> socket.socket:
    """A bound socket, not listening yet. Port 0 takes any free port. Raises BindError."""
    try:
        family, kind, proto, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with contextlib.ExitStack() as stack:
            bound = stack.enter_context(socket.socket(family, kind, proto))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(where)
            stack.pop_all()
    except (OSError, UnicodeError) as error:  # the latter for a name that cannot be a host's
        reason = getattr(error, "strerror", None) or error
        raise BindError(
            f"cannot listen on {address.host}:{address.port} ({address.settings}): {reason}"
        ) from error
    return bound


class _Listener(uvicorn.Server):
    """uvicorn without its signal handling: two share a process, and the drain is ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def sweep(self, now: float, limits: ConnectionLimits) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, SluiceProtocol):
                connection.enforce_time_limits(now, limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """`public` and `admin` are served on bound sockets until a signal comes.

    `begin_drain` is called at the first SIGTERM or SIGINT and must refuse what waits; then running
    requests get `drain_timeout_s`, and the rest is broken off. A second signal ends the process at
    once.
    """

    public: ASGIApp
    admin: ASGIApp
    drain: Drain
    begin_drain: Callable[[], None]
    drain_timeout_s: float
    connection_limits: ConnectionLimits

    async def run(
        self,
        public_socket: socket.socket,
        admin_socket: socket.socket,
        on_ready: Callable[[], None],
    ) -> None:
        """Returns when everything is over. `on_ready` is called once both listeners accept."""
        listeners = [_listener(self.public), _listener(self.admin)]
        stop = _stop_signal()
        serving = [
            asyncio.create_task(listener.serve(sockets=[bound]))
            for listener, bound in zip(listeners, (public_socket, admin_socket), strict=True)
        ]
        sweeping = asyncio.create_task(self._sweep(listeners))
        try:
            await _accepting(listeners, serving)
            on_ready()
            await _first(stop, *serving)
            await self._drain_requests()
        finally:
            sweeping.cancel()
            for listener in listeners:
                listener.should_exit = True
            await asyncio.gather(*serving)

    async def _drain_requests(self) -> None:
        _log.info(
            "draining: %d requests run and may finish within %g s (SLUICE_DRAIN_TIMEOUT)",
            self.drain.running,
            self.drain_timeout_s,
        )
        self.begin_drain()
        broken = await self.drain.finish(self.drain_timeout_s)
        if broken:
            _log.warning("drain timeout is over: %d requests broken off", broken)
        else:
            _log.info("drained: every running request finished")

    async def _sweep(self, listeners: list[_Listener]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_EVERY_S)
            for listener in listeners:
                listener.sweep(loop.time(), self.connection_limits)


def _listener(app: ASGIApp) -> _Listener:
    config = uvicorn.Config(
        app,
        http=SluiceProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_FLUSH_S,
        backlog=_BACKLOG,
    )
    return _Listener(config)


def _stop_signal() -> asyncio.Future[None]:
    """Done at the first SIGTERM or SIGINT; the second one ends the process on the spot.

    SIGHUP, which asks many a daemon to read its settings anew, must not end this one.
    """
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def on_signal(number: int) -> None:
        if stop.done():
            _log.warning("second signal: exiting at once")
            logging.shutdown()
            _exit_at_once(number)
        stop.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    loop.add_signal_handler(signal.SIGHUP, _log.warning, _NO_RELOAD)
    return stop


def _exit_at_once(number: int) -> None:
    """As the signal's default action would, so that whoever sent it sees the usual status."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    os._exit(128 + number)  # still here: for process 1 of a container there is no default action


async def _accepting(listeners: list[_Listener], serving: list[asyncio.Task[None]]) -> None:
    while not all(listener.started for listener in listeners):
        if any(task.done() for task in serving):
            return
        await asyncio.sleep(0.005)


async def _first(*waiting: asyncio.Future[None]) -> None:
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)

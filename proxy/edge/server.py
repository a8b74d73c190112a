"""Runs the listeners in one event loop, from binding the sockets to the end of the drain."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.edge.listeners import listening
from proxy.edge.listening_socket import ListeningSocket
from proxy.edge.stop_signal import exit_at_once, stop_signal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp

    from proxy.edge.connection import ConnectionLimits
    from proxy.edge.connection_cap import ConnectionCap
    from proxy.edge.drain import Drain

_log = logging.getLogger("sluice.server")


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
            bound = stack.enter_context(ListeningSocket(family, kind, proto))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(where)
            stack.pop_all()
    except (OSError, UnicodeError) as error:  # the latter for a name that cannot be a host's
        reason = getattr(error, "strerror", None) or error
        raise BindError(
            f"cannot listen on {address.host}:{address.port} ({address.settings}): {reason}"
        ) from error
    return bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """`apps` are served on bound sockets, under `caps` if there are any, until a signal comes.

    `begin_drain` is called at the first SIGTERM or SIGINT and must refuse what waits; then running
    requests get `drain_timeout_s`, and the rest is broken off. A second signal ends the process at
    once, unless `at_second_signal` does something else. The end of any of `ends_with` is taken as
    a first signal is.
    """

    apps: Sequence[ASGIApp]
    drain: Drain
    begin_drain: Callable[[], None]
    drain_timeout_s: float
    connection_limits: ConnectionLimits
    caps: Sequence[ConnectionCap] = ()
    at_second_signal: Callable[[int], None] = exit_at_once
    ends_with: Sequence[asyncio.Future[None]] = ()

    async def run(self, sockets: Sequence[socket.socket], on_ready: Callable[[], None]) -> None:
        """Returns when everything is over. `on_ready` is called once all listeners accept."""
        stop = stop_signal(self.at_second_signal)
        limits = self.connection_limits
        async with listening(self.apps, sockets, limits, self.caps) as serving:
            on_ready()
            ends = [stop, *serving, *self.ends_with]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            await self._drain_requests()

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

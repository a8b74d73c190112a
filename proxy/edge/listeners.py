"""Serves applications on bound sockets, all in one event loop, with the limits on slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from functools import partial
from typing import TYPE_CHECKING

import uvicorn

from proxy.edge.connection_cap import ConnectionCap
from proxy.edge.counted_connection import CountedProtocol
from proxy.edge.rate_limited_log import RateLimitedLog
from proxy.upstream.late_expiry import GRACE_S, is_noticed_late

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Iterator, Sequence

    from starlette.types import ASGIApp

    from proxy.edge.connection import ConnectionLimits

_connections_log = logging.getLogger("sluice.connections")

_SWEEP_EVERY_S = 1.0
# A client that asks again at once mostly has done so by then.
_RESTED_S = 1.0
# For bytes that are still in socket buffers once every request is over; then whoever has not read
# them is cut off. uvicorn would cancel what writes to him, which looks like a fault in the log.
_FLUSH_S = 2.0
_CUT_OFF_WITHIN_S = 1
_BACKLOG = 2048


class _Listener(uvicorn.Server):
    """uvicorn without its signal handling: several share a process, and the drain is ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def __init__(self, config: uvicorn.Config, cap: ConnectionCap) -> None:
        super().__init__(config)
        self._cap = cap

    def sweep(self, now: float, limits: ConnectionLimits) -> None:
        for connection in self._connections:
            connection.enforce_time_limits(now, limits)
        if surplus := self._cap.surplus:
            self._close_resting(surplus, now)

    @property
    def _connections(self) -> list[CountedProtocol]:
        found = self.server_state.connections
        return [one for one in found if isinstance(one, CountedProtocol)]

    def _close_resting(self, surplus: int, now: float) -> None:
        """Those first that have asked for nothing for longest. One that has just been answered may
        be about to ask again, and is left till it has rested; and so is one that is at work."""
        resting = [
            (since, number, connection)
            for number, connection in enumerate(self._connections)
            if (since := connection.resting_since) is not None and now - since >= _RESTED_S
        ]
        closed = sorted(resting)[:surplus]
        for _, _, connection in closed:
            connection.transport.close()
        if closed:
            _connections_log.info(
                "%d resting connections of clients are closed: there may be %s now, since the "
                "engines may need the other descriptors (SLUICE_MAX_CONNECTIONS)",
                len(closed),
                self._cap.max_connections,
            )

    def cut_off(self) -> None:
        """Whoever is still there."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()


@contextlib.asynccontextmanager
async def listening(
    apps: Sequence[ASGIApp],
    sockets: Sequence[socket.socket],
    limits: ConnectionLimits,
    caps: Sequence[ConnectionCap] = (),
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Serves each application on its socket, under its cap if there are any, from here to the end
    of the block.

    Gives the tasks that serve. None ends before the block does, unless it fails; what it failed
    with is raised at the end.
    """
    loop, caps = asyncio.get_running_loop(), caps or [ConnectionCap() for _ in apps]
    listeners = [_listener(app, cap) for app, cap in zip(apps, caps, strict=True)]
    serving = [
        asyncio.create_task(listener.serve(sockets=[bound]))
        for listener, bound in zip(listeners, sockets, strict=True)
    ]
    sweeping = asyncio.create_task(_sweep(listeners, limits))
    try:
        await _accepting(listeners, serving)
        yield serving
    finally:
        sweeping.cancel()
        cutting = [loop.call_later(_FLUSH_S, listener.cut_off) for listener in listeners]
        for listener in listeners:
            listener.should_exit = True
        try:
            await asyncio.gather(*serving)
        finally:
            for one in cutting:
                one.cancel()


def _listener(app: ASGIApp, cap: ConnectionCap) -> _Listener:
    protocol = partial(
        CountedProtocol, cap=cap, refusals=RateLimitedLog(_connections_log), rng=random.Random()
    )
    config = uvicorn.Config(
        app,
        http=protocol,  # type: ignore[arg-type]  # called as a class
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=int(_FLUSH_S) + _CUT_OFF_WITHIN_S,
        backlog=_BACKLOG,
    )
    return _Listener(config, cap)


async def _accepting(listeners: list[_Listener], serving: list[asyncio.Task[None]]) -> None:
    while not all(listener.started for listener in listeners):
        if any(task.done() for task in serving):
            return
        await asyncio.sleep(0.005)


async def _sweep(listeners: list[_Listener], limits: ConnectionLimits) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _SWEEP_EVERY_S
        await asyncio.sleep(_SWEEP_EVERY_S)
        if is_noticed_late(due):
            await asyncio.sleep(GRACE_S)
        for listener in listeners:
            listener.sweep(loop.time(), limits)

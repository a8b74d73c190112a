"""The gateway in a thread of its own, on real sockets and its own event loop.

In the test's process, so that what it holds can be looked at: tasks, timers, connections, seats.
In a thread, so that its loop can be stopped while clients and engine go on, and so that every task
and timer of that loop is the gateway's.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from proxy.app import build
from proxy.cli.connection_caps import public_cap
from proxy.cli.serving import connection_limits
from proxy.config import Settings
from proxy.edge.listeners import listening
from proxy.edge.server import Address, bind
from proxy.upstream.httpx_client import HttpxUpstream
from proxy.upstream.pool import ConnectionPool
from tests.faults.watched_loop import WatchedLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from proxy.admission.permit import Permit
    from proxy.app import Application
    from proxy.edge.connection_cap import ConnectionCap
    from proxy.telemetry.request_record import RequestRecord

T = TypeVar("T")

_ANSWERS_WITHIN_S = 15.0


@dataclass(frozen=True)
class Held:
    """What a gateway holds at one moment. At rest all of it is nothing, but for the connections
    that the pool keeps for later."""

    in_flight: int
    queue_depth: int
    body_bytes: int
    requests: int
    clients: int
    busy_engine_connections: int
    tasks: tuple[str, ...]
    timers: tuple[str, ...]


AT_REST = Held(0, 0, 0, 0, 0, 0, (), ())


class Freeze:
    """Stops the gateway's loop where a request has got its seat and was not sent yet."""

    def __init__(self) -> None:
        self._is_armed = False
        self.reached = threading.Event()
        self._thawed = threading.Event()

    def arm(self) -> None:
        self.reached.clear()
        self._thawed.clear()
        self._is_armed = True

    def thaw(self) -> None:
        self._is_armed = False
        self._thawed.set()

    def pass_by(self) -> None:
        if self._is_armed:
            self._is_armed = False
            self.reached.set()
            self._thawed.wait(_ANSWERS_WITHIN_S)


class _Frozen:
    """An admission behind which there may be a freeze."""

    def __init__(self, admission: AbstractAsyncContextManager[Permit], freeze: Freeze) -> None:
        self._admission = admission
        self._freeze = freeze

    async def __aenter__(self) -> Permit:
        permit = await self._admission.__aenter__()
        self._freeze.pass_by()
        return permit

    async def __aexit__(self, *why: object) -> None:
        await self._admission.__aexit__(*why)  # type: ignore[arg-type]  # as it got them


class GatewayThread:
    """`settings` as for Settings. Enter it to start the gateway, leave it to stop it."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = Settings(**settings)
        self._drain_timeout_s = 0.0
        self.freeze = Freeze()
        self.records: list[RequestRecord] = []
        self.loop_failures: list[dict[str, Any]] = []
        self._bound = bind(Address("127.0.0.1", 0, "of a test"))
        self.port: int = self._bound.getsockname()[1]
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.result(_ANSWERS_WITHIN_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.freeze.thaw()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_ANSWERS_WITHIN_S)
        assert not self._thread.is_alive(), "the gateway does not stop"

    def stop_within(self, drain_timeout_s: float) -> None:
        """What SIGTERM begins. The thread ends by itself."""
        self._drain_timeout_s = drain_timeout_s
        self._loop.call_soon_threadsafe(self._stop.set)

    @property
    def is_draining(self) -> bool:
        return self._app.drain.begun

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def soon(self, function: Callable[[], None]) -> None:
        """Runs it in the gateway's loop, whenever that comes round."""
        self._loop.call_soon_threadsafe(function)

    def write(self, record: RequestRecord) -> None:
        """As a RecordSink."""
        self.records.append(record)

    def call(self, function: Callable[[], T]) -> T:
        """Runs it in the gateway's thread, between two steps of its loop."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(function())
            except BaseException as error:  # noqa: BLE001 - the caller's
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result(_ANSWERS_WITHIN_S)

    def outcomes(self) -> Counter[str]:
        """What `sluice_requests_total` has counted, over all routes, at one moment."""
        return self._outcomes() if self.has_ended else self.call(self._outcomes)

    def held(self) -> Held:
        return self.call(self._held)

    def connections_kept(self) -> int:
        """Towards the engine, without a request."""
        return self.call(lambda: _engine_connections(self._app)[1])

    # In the gateway's thread.

    def _run(self) -> None:
        loop = WatchedLoop()
        loop.set_exception_handler(lambda _, context: self.loop_failures.append(context))
        self._loop = loop
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._app: Application = build(self._settings, sinks=[self], poll_engines=False)
        refused = self._app.metrics.connection_refused
        self._cap: ConnectionCap = public_cap(
            self._settings, refused, self._app.fleet.most_connections
        )
        limits = connection_limits(self._settings)
        admit, freeze = self._app.controller.admit, self.freeze
        self._app.controller.admit = lambda request: _Frozen(admit(request), freeze)  # type: ignore[method-assign, return-value]  # in this one
        async with listening([self._app.public], [self._bound], limits, [self._cap]):
            if self._app.leases is not None:
                self._app.leases.start()
                await self._until_seats_are_leased()
            self._own_tasks = asyncio.all_tasks()
            self._ready.set_result(None)
            await self._stop.wait()
            self._app.begin_drain()
            await self._app.drain.finish(self._drain_timeout_s)
        await self._app.stop()

    async def _until_seats_are_leased(self) -> None:
        async with asyncio.timeout(_ANSWERS_WITHIN_S):
            while self._app.controller.snapshot().upstreams[0].limit < self._settings.max_in_flight:
                await asyncio.sleep(0.01)

    def _outcomes(self) -> Counter[str]:
        counted: Counter[str] = Counter()
        for route in self._app.metrics._routes.values():
            counted.update(dict(route.counts()))
        return counted

    def _held(self) -> Held:
        admission = self._app.controller.snapshot()
        return Held(
            in_flight=admission.in_flight,
            queue_depth=admission.queue_depth,
            body_bytes=self._app.public.intake.buffered_bytes,
            requests=self._app.drain.running,
            clients=self._cap._open,
            busy_engine_connections=_engine_connections(self._app)[0],
            tasks=tuple(sorted(map(repr, asyncio.all_tasks(self._loop) - self._own_tasks))),
            timers=tuple(sorted(filter(None, map(self._timer, self._loop.timers())))),
        )

    def _timer(self, callback: Callable[..., object]) -> str:
        """Nothing for those of a gateway at rest: its loops, and what the pool watches of the
        connections that it keeps."""
        name = getattr(callback, "__qualname__", repr(callback))
        if name in ("_set_result_unless_cancelled", "ConnectionPool._close_expired"):
            return ""
        owner = getattr(callback, "__self__", None)
        if name == "LazyDeadline._look" and owner is not None:
            connection = owner._on_expired.__self__
            return "" if connection._is_resting and not connection.is_closed else name
        return name


def _engine_connections(app: Application) -> tuple[int, int]:
    """In use, and kept."""
    busy = kept = 0
    for engine in app.public.engines.values():
        match engine.upstream:
            case ConnectionPool() as pool:
                snapshot = pool.snapshot()
                closing = len(pool._open) - snapshot.idle - snapshot.in_use
                busy += snapshot.in_use + max(closing, 0)
                kept += snapshot.idle
            case HttpxUpstream() as upstream:
                connections = [
                    *upstream._kept._pool.connections,  # type: ignore[attr-defined]  # httpcore's
                    *upstream._unkept._pool.connections,  # type: ignore[attr-defined]  # as above
                ]
                idle = sum(connection.is_idle() for connection in connections)
                busy += len(connections) - idle + len(upstream._closings)
                kept += idle
    return busy, kept

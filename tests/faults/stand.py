"""A gateway, an engine, and what must be true again after every fault."""

from __future__ import annotations

import asyncio
import gc
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.gateway_thread import AT_REST, GatewayThread, Held
from tests.faults.rules import cells
from tests.faults.scripted_engine import MatrixEngine
from tests.faults.watching_client import WatchingClient
from tests.support.raw_client import request_bytes
from tests.support.scripted_upstream import Hold, json_answer

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Coroutine, Mapping

    from tests.faults.matrix import Fault
    from tests.faults.rules import ClientKind

SEATS = 2
_PLACES = 4
_WITHIN_S = 10.0
# A permit that there are two of lets a request through at once; this is for it to arrive.
_ARRIVAL_S = 0.005

PATIENT = {
    "connect_timeout": 15,
    "first_byte_timeout": 15,
    "idle_timeout": 15,
    "body_timeout": 15,
    "queue_timeout": 15,
    "write_timeout": 0.3,
}
HASTY = PATIENT | {"connect_timeout": 0.6, "first_byte_timeout": 0.6, "idle_timeout": 0.6}


class Stand:
    """Runs scenarios one after the other on one gateway. After one that failed all is made anew."""

    def __init__(self, runner: asyncio.Runner, settings: Mapping[str, Any]) -> None:
        self._runner = runner
        self._settings = settings
        self._exits: ExitStack | None = None
        self.gateway: GatewayThread
        self.engine: MatrixEngine

    @property
    def port(self) -> int:
        return self.gateway.port

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        try:
            self._runner.run(self._run(scenario))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._runner.run(self.aclose())

    async def aclose(self) -> None:
        if self._exits is not None:
            exits, self._exits = self._exits, None
            await asyncio.to_thread(exits.close)
            await self.engine.__aexit__(None, None, None)

    async def _run(self, scenario: Coroutine[Any, Any, None]) -> None:
        if self._exits is None:
            await self.start()
        await self.begin()
        await scenario
        assert not self.gateway.loop_failures, self.gateway.loop_failures

    async def begin(self) -> None:
        """Counts from zero."""
        self.engine.forget()
        self.engine.handler = json_answer()
        self.engine.greet = None
        self.counted_before = self.gateway.outcomes()

    async def start(self) -> None:
        self.engine = await MatrixEngine(behind_gateway=True).__aenter__()
        settings = {
            "upstream_urls": self.engine.url,
            "max_in_flight": SEATS,
            "max_queue_depth": _PLACES,
            **PATIENT,
            **self._settings,
        }
        self._exits = ExitStack()
        gateway = GatewayThread(settings)
        self.gateway = await asyncio.to_thread(self._exits.enter_context, gateway)
        gc.collect()
        self._sockets_at_rest = open_sockets()

    def counted(self) -> Counter[str]:
        """The outcomes since the scenario began."""
        return self.gateway.outcomes() - self.counted_before

    async def until(self, holds: Callable[[Held], bool], within_s: float = _WITHIN_S) -> None:
        """Waits for a state of the gateway; fails with what it holds instead."""
        deadline = asyncio.get_running_loop().time() + within_s
        while not holds(held := self.gateway.held()):
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"not within {within_s:g} s: {held}")
            await asyncio.sleep(0.001)

    async def until_ended(self, requests: int) -> None:
        """Waits until so many requests of the scenario have been counted."""
        deadline = asyncio.get_running_loop().time() + _WITHIN_S
        while (counted := self.counted()).total() < requests:
            assert asyncio.get_running_loop().time() < deadline, f"only {counted} have ended"
            await asyncio.sleep(0.005)

    async def forget_connections(self) -> None:
        """The engine closes those that rest in the pool: the next request gets a fresh one."""
        self.engine.close_idle()
        await self.engine.until(lambda: self.engine.connections_open == 0)
        await self.until(lambda held: held.busy_engine_connections == 0)

    async def until_no_connection_is_kept(self) -> None:
        """The own pool sees at once what becomes of those that rest; httpx when it wants one."""
        if self._settings["upstream_client"] == "pool":
            async with asyncio.timeout(_WITHIN_S):
                while self.gateway.connections_kept():
                    await asyncio.sleep(0.001)
        await self.settle()

    async def settle(self) -> None:
        """For what was sent here to be in the other's kernel."""
        await asyncio.sleep(0.01)

    async def nothing_is_left(self) -> None:
        """No seat, place, task, timer, connection of a client, or busy one of the engine."""
        await self.until(lambda held: held == AT_REST)

    async def gateway_has_ended(self) -> None:
        """And the engine has no connection of it."""
        deadline = asyncio.get_running_loop().time() + _WITHIN_S
        while not self.gateway.has_ended:
            assert asyncio.get_running_loop().time() < deadline, "the gateway does not end"
            await asyncio.sleep(0.005)
        await self.engine.until(lambda: self.engine.connections_open == 0)

    async def capacity_is_exact(self) -> None:
        """As many as there are seats get in at once, and one more waits until one comes free."""
        self.engine.handler = hold = Hold(start=True)
        clients = [await WatchingClient.connect(self.port) for _ in range(SEATS + 1)]
        try:
            for client in clients[:SEATS]:
                client.send(request_bytes())
            await self._all_seats_are_given()
            clients[SEATS].send(request_bytes())
            await self.until(lambda held: held.queue_depth == 1)
            await asyncio.sleep(_ARRIVAL_S)
            assert self.engine.inflight == SEATS, f"a permit too many: {self.engine!r}"
            hold.release()
            for client in clients:
                seen = await client.see()
                assert (seen.status, seen.code) == (200, ""), seen
        finally:
            hold.release()
            for client in clients:
                client.fin()
        await self.nothing_is_left()

    async def _all_seats_are_given(self) -> None:
        try:
            await self.engine.until(lambda: self.engine.inflight == SEATS, _WITHIN_S)
        except AssertionError as late:
            raise AssertionError(f"a permit was lost: {self.engine!r}") from late

    async def no_socket_is_left(self) -> None:
        """In the process there are, beside those at the start, the two ends of each connection
        between gateway and engine."""
        deadline = asyncio.get_running_loop().time() + _WITHIN_S
        while left := open_sockets() - self._sockets_at_rest - 2 * self.engine.connections_open:
            assert asyncio.get_running_loop().time() < deadline, f"{left} sockets left"
            await asyncio.sleep(0.002)


def open_sockets() -> int:
    """How many this process has open."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed while we looked
            found += str(descriptor.readlink()).startswith("socket:")
    return found


class Stands:
    """A stand for each kind of client and settings, one at a time: sockets are counted in all of
    the process.

    Asked for by the tests themselves. As the parameter of a fixture each cell would be a value of
    its own to pytest, which tears down what has another value: a gateway for each cell, where what
    one cell leaves behind is never seen by the next.
    """

    def __init__(self) -> None:
        self._exits = ExitStack()
        self._is_for: object = None
        self._stand: Stand

    def of(self, kind: ClientKind, settings: Mapping[str, object] = MappingProxyType({})) -> Stand:
        if (kind, settings) != self._is_for:
            self.close()
            runner = self._exits.enter_context(asyncio.Runner())
            self._stand = Stand(runner, {"upstream_client": kind, **settings})
            self._exits.callback(self._stand.close)
            self._is_for = kind, settings
        return self._stand

    def close(self) -> None:
        self._is_for = None
        self._exits.close()


def each_cell(*faults: Fault) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "cell", [pytest.param(one, id=f"{one}") for one in cells(faults)]
    )

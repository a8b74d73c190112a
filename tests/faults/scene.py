"""One request that is brought to a point of its life, and everything around it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Self

from tests.faults.matrix import Point
from tests.faults.scripted_engine import Script, answer, finish
from tests.faults.watching_client import WatchingClient
from tests.support.raw_client import request_bytes
from tests.support.scripted_upstream import unresponsive_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.faults.engine_process import EngineProcess
    from tests.faults.scripted_engine import Answer, Ending
    from tests.faults.stand import Stand

SUBJECT = "subject"
HOLDERS = ("holder-0", "holder-1")
_BODY = b'{"prompt": "' + b"x" * 200 + b'"}'
IN_AN_ANSWER = (Point.HEADERS, Point.BETWEEN, Point.LAST)
_WITHIN_S = 5.0


def held_at(point: Point, said: Answer) -> dict[str, tuple[Point, Answer]]:
    """How far the engine answers, and to whom, before it waits for an order."""
    at = point if point in IN_AN_ANSWER else Point.SENT
    of_holders = Point.SENT, answer(stream=False)
    return {SUBJECT: (at, said), **dict.fromkeys(HOLDERS, of_holders)}


class Scene:
    """`said` is the engine's answer, `script` what plays the engine, by default in this process.
    Without `sends` a request that is to be queued is kept back."""

    def __init__(
        self,
        stand: Stand,
        point: Point,
        said: Answer,
        *,
        stream: bool,
        script: Script | EngineProcess | None = None,
        sends: bool = True,
    ) -> None:
        self._sends = sends
        self.stand = stand
        self.point = point
        self._stream = stream
        self._exits = contextlib.AsyncExitStack()
        self.said = said
        self.script = script or Script(held_at(point, said))
        self.client: WatchingClient
        self.served_beside = 0
        """Requests that were served only to bring this one to its point."""

    @classmethod
    @contextlib.asynccontextmanager
    async def at(
        cls,
        stand: Stand,
        point: Point,
        said: Answer,
        *,
        stream: bool,
        script: Script | EngineProcess | None = None,
        sends: bool = True,
    ) -> AsyncIterator[Self]:
        """The scene, at that point."""
        scene = cls(stand, point, said, stream=stream, script=script, sends=sends)
        try:
            await scene.reach()
            yield scene
        finally:
            await scene.leave()

    async def leave(self) -> None:
        """All clients hang up, and the engine is as it was."""
        self.stand.engine.greet = None
        self.stand.gateway.freeze.thaw()
        await self._exits.aclose()
        if isinstance(self.script, Script) and not self.stand.engine.is_listening:
            await self.stand.engine.listen()

    @property
    def requests(self) -> int:
        """Those that will be counted, if this one is."""
        holders = len(HOLDERS) if self.point is Point.QUEUED else 0
        return self.served_beside + holders + (self.point is not Point.IDLE)

    # To the point.

    async def reach(self) -> None:
        if isinstance(self.script, Script):
            self.stand.engine.handler = self.script
        self.client = await self._connect()
        match self.point:
            case Point.HEAD:
                await self._warm_up()
                self.client.send(self.request()[:40])
                await self.stand.until(lambda held: held.clients == 1)
            case Point.BODY:
                await self._warm_up()
                self.client.send(self.request()[:-100])
                await self.stand.until(lambda held: held.requests == 1)
            case Point.QUEUED:
                await self._take_all_seats()
                if self._sends:
                    self.client.send(self.request())
                    await self.stand.until(lambda held: held.queue_depth == 1)
            case Point.GRANTED:
                await self._warm_up()
                await self._freeze_when_granted()
            case Point.CONNECTING:
                await self.stand.forget_connections()
                await self._freeze_when_granted()
            case Point.IDLE:
                await self.serve_the_next()
                await self.stand.until(lambda held: held.requests == 0)
                await self._until_one_rests()
            case _:
                await self._ask_on_a_fresh_connection()

    async def _connect(self) -> WatchingClient:
        client = await WatchingClient.connect(self.stand.port)
        self._exits.callback(client.fin)
        return client

    async def _warm_up(self) -> None:
        """Leaves one connection in the pool."""
        client = await WatchingClient.connect(self.stand.port)
        client.send(request_bytes())
        assert (await client.see()).status == 200
        self.served_beside += 1
        client.fin()
        await self.stand.until(lambda held: held.clients == 1)
        await self._until_one_rests()

    async def _until_one_rests(self) -> None:
        kept = self.stand.gateway.connections_kept
        await self.client.until(lambda: kept() >= 1, "a connection that rests")

    async def _take_all_seats(self) -> None:
        """On fresh connections: over one that rested, a request is sent again if that dies."""
        await self.stand.forget_connections()
        for name in HOLDERS:
            holder = await self._connect()
            holder.send(request_bytes(headers={"x-client-id": name}))
        await self.stand.engine.until(lambda: self.script.arrived >= set(HOLDERS))

    async def _freeze_when_granted(self) -> None:
        freeze = self.stand.gateway.freeze
        freeze.arm()
        self.client.send(self.request())
        async with asyncio.timeout(_WITHIN_S):
            while not freeze.reached.is_set():
                await asyncio.sleep(0.001)

    async def _ask_on_a_fresh_connection(self) -> None:
        await self.stand.forget_connections()
        self.client.send(self.request())
        await self.stand.engine.until(lambda: SUBJECT in self.script.arrived)
        received = self.client.received
        if self.point in IN_AN_ANSWER:
            await self.client.until(lambda: b"\r\n\r\n" in received, "a head")
        if self.point is Point.BETWEEN:
            await self.client.until(lambda: self.said.first in received, "the first of a body")

    def request(self) -> bytes:
        stream = b', "stream": true}' if self._stream else b"}"
        return request_bytes(body=_BODY[:-1] + stream, headers={"x-client-id": SUBJECT})

    # From the point on.

    async def serve_the_next(self) -> None:
        """A request on the client's connection when nothing else is on it."""
        self.client.received.clear()
        self.client.send(request_bytes())
        assert (await self.client.see()).status == 200
        self.served_beside += 1

    def thaw(self) -> None:
        """What was frozen with the grant goes on."""
        self.stand.gateway.freeze.thaw()

    async def hang_while_connecting(self) -> None:
        """The engine's port drops what comes. Until close(), or connect_at_last()."""
        self.stand.engine.stop_listening()
        port = self.stand.engine.port
        self._unresponsive = await self._exits.enter_async_context(contextlib.AsyncExitStack())
        await self._unresponsive.enter_async_context(unresponsive_port(port))
        self.thaw()
        await self.stand.until(lambda held: held.busy_engine_connections == 1)

    async def connect_at_last(self) -> None:
        await self._unresponsive.aclose()
        await self.stand.engine.listen()

    def order(self, ending: Ending) -> None:
        """How the answer to the request goes on."""
        self.script.order(ending, SUBJECT)

    def order_holders(self, ending: Ending) -> None:
        """The same of those that have the seats, if somebody has."""
        self.script.order(ending, *HOLDERS)

    def go_on(self) -> None:
        """All that was still to come, comes."""
        self.thaw()
        self.send_the_rest()
        self.order_holders(finish)
        self.order(finish)

    def send_what_waits(self) -> None:
        """The whole request, where it was kept back."""
        if self.point is Point.QUEUED:
            self.client.send(self.request())

    def send_the_rest(self) -> None:
        if self.point is Point.HEAD:
            self.client.send(self.request()[40:])
        elif self.point is Point.BODY:
            self.client.send(self.request()[-100:])

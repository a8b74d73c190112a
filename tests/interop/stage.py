"""Gateways in every state that a client may meet, all up at once.

They run in an event loop in a thread of its own, so that a test can simply wait for its client.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tests.interop.scripted_engine import by_model
from tests.support.engine_process import wait_until
from tests.support.gateway_process import gateway
from tests.support.raw_client import RawClient, ask_once, request_bytes
from tests.support.scripted_upstream import Hold, ScriptedUpstream, json_answer, refusing_port

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future

    from tests.support.engine_process import EngineProcess
    from tests.support.gateway_process import GatewayProcess

T = TypeVar("T")

STARTING_TIMEOUT_S = 120
"""What the first test may take: all of it starts for that one."""

APP_KEY = "sk-of-the-app"
MAX_BODY_BYTES = 100_000
_WITHIN_S = 110.0
# A start keeps a core busy, and must not take longer than it may beside the others'.
_AT_ONCE = 2


class LoopThread:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.begin(work).result(_WITHIN_S)


@dataclass
class Stage:
    """`sluices` by state. Enter it in the loop that it is to run in."""

    engine: EngineProcess
    sluices: dict[str, GatewayProcess] = field(default_factory=dict)
    scripted: ScriptedUpstream = field(default_factory=lambda: ScriptedUpstream(by_model))
    _open: AsyncExitStack = field(default_factory=AsyncExitStack)
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    def url(self, state: str) -> str:
        return self.sluices[state].url

    async def open(self) -> None:
        await self._open.enter_async_context(self.scripted)
        async with asyncio.TaskGroup() as starting:
            for start in (
                self._serving(),
                self._misbehaving(),
                self._full("full", retry_budget=0),
                self._full("full_429", retry_budget=0, overload_status=429),
                self._waiting(),
                self._down(),
                self._draining(),
            ):
                starting.create_task(start)

    async def close(self) -> None:
        for sluice in self.sluices.values():  # all at once; the next signal hurries who still waits
            if sluice.exit_code is None:
                sluice.terminate()
        await self._open.aclose()

    async def open_inviting(self, tickets: int) -> None:
        """As "full", but with so many tickets to come back; soon they are worth less."""
        await self._held("inviting", served=tickets, max_queue_depth=0, retry_budget=1)

    def until_aborted(self, count: int) -> None:
        """Waits until so many requests were given up at the scripted engine."""
        wait_until(lambda: self.scripted.aborts == count, "an abort", within_s=2.0)

    async def _start(self, state: str, engine_url: str, **settings: object) -> GatewayProcess:
        patient = {"start_within_s": STARTING_TIMEOUT_S, **settings}
        async with self._turn:
            sluice = await self._open.enter_async_context(gateway(engine_url, **patient))
        self.sluices[state] = sluice
        return sluice

    async def _serving(self) -> None:
        await self._start(
            "serving",
            self.engine.url,
            max_num_seqs=self.engine.max_num_seqs,
            api_keys=f"app:{APP_KEY}",
            max_body_bytes=MAX_BODY_BYTES,
        )

    async def _misbehaving(self) -> None:
        await self._start("misbehaving", self.scripted.url, max_in_flight=50)

    async def _full(self, state: str, **settings: object) -> None:
        """No seat and no place to wait."""
        await self._held(state, max_queue_depth=0, **settings)

    async def _waiting(self) -> None:
        """No seat; there is a queue, in which one waits in vain."""
        await self._held("waiting", max_queue_depth=100, queue_timeout=0.2, retry_budget=0)

    async def _draining(self) -> None:
        """It was told to stop, and a running request keeps it from it."""
        sluice = await self._held("draining", drain_timeout=600)
        sluice.terminate()
        await sluice.until_metric("sluice_draining", 1)

    async def _down(self) -> None:
        port = self._open.enter_context(refusing_port())
        sluice = await self._start(
            "down", f"http://127.0.0.1:{port}", max_in_flight=4, wait_until_ready=False
        )
        await sluice.until_metric("sluice_upstream_up", 0)

    async def _held(self, state: str, served: int = 1, **settings: object) -> GatewayProcess:
        """Its only seat is taken for good. Some were served before, so that the time until there
        is room is known to be short."""
        upstream = await self._open.enter_async_context(ScriptedUpstream(json_answer()))
        sluice = await self._start(state, upstream.url, max_in_flight=1, **settings)
        for _ in range(served):
            await ask_once(sluice.port, request_bytes())
        upstream.probes = {**upstream.probes, b"/v1/models": json_answer()}
        upstream.handler = Hold()
        running = await self._open.enter_async_context(await RawClient.connect(sluice.port))
        running.send(request_bytes())
        await upstream.until(lambda: upstream.inflight == 1)
        return sluice

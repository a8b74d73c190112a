"""The engine of the matrix as a process of its own, which can be killed.

It is forked from a server that has everything imported, which takes a few milliseconds.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.faults.scripted_engine import MatrixEngine, Script, finish

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess

    from tests.faults.matrix import Point
    from tests.faults.scripted_engine import Answer, Ending
    from tests.support.scripted_exchange import Exchange

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])
_LISTENING, _STOPPING = "listening", "stopping"


@dataclass
class EngineProcess:
    """A Script, as far as a Scene knows, that is played elsewhere."""

    process: ForkServerProcess
    _heard: Connection
    _orders: Connection
    _arrived: set[str] = field(default_factory=set)

    @property
    def arrived(self) -> set[str]:
        """Who has come, and what the process says of itself."""
        while self._heard.poll():
            try:
                self._arrived.add(self._heard.recv())
            except EOFError:
                break
        return self._arrived

    @property
    def is_listening(self) -> bool:
        return _LISTENING in self.arrived

    def order(self, _ending: Ending, *names: str) -> None:
        """It knows one ending only."""
        if self.process.is_alive():
            self._orders.send(names)

    async def kill(self) -> None:
        self._signal(signal.SIGKILL)
        await self.ended()

    async def terminate(self) -> None:
        """Returns when it has heard."""
        self._signal(signal.SIGTERM)
        while _STOPPING not in self.arrived:
            await asyncio.sleep(0.001)

    async def ended(self) -> None:
        while self.process.is_alive():
            await asyncio.sleep(0.001)

    def _signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)


@contextmanager
def engine_process(port: int, held: dict[str, tuple[Point, Answer]]) -> Iterator[EngineProcess]:
    """Listens on a port that must be free, once it says so."""
    heard, told = _CONTEXT.Pipe(duplex=False)  # pipes, that sockets can be counted
    taken, orders = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_run, args=(port, held, told, taken), daemon=True)
    process.start()
    told.close()
    taken.close()
    try:
        yield EngineProcess(process, heard, orders)
    finally:
        process.kill()
        process.join()
        process.close()
        heard.close()
        orders.close()


# In that process.


def _run(
    port: int, held: dict[str, tuple[Point, Answer]], told: Connection, orders: Connection
) -> None:
    asyncio.run(_serve(port, held, told, orders))


class _Telling(set[str]):
    """Who has come, told on."""

    def __init__(self, wire: Connection) -> None:
        super().__init__()
        self._wire = wire

    def add(self, name: str) -> None:
        super().add(name)
        self._wire.send(name)


async def _serve(
    port: int, held: dict[str, tuple[Point, Answer]], told: Connection, orders: Connection
) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    script = Script(held, _Telling(told))
    loop.add_reader(orders.fileno(), lambda: script.order(finish, *orders.recv()))
    loop.add_signal_handler(signal.SIGTERM, stopping.set)

    async def answer(exchange: Exchange) -> None:
        await script(exchange)
        if stopping.is_set():
            exchange.close()

    async with MatrixEngine(answer, port=port, behind_gateway=True) as engine:
        told.send(_LISTENING)
        await stopping.wait()
        engine.stop_listening()
        engine.close_idle()
        told.send(_STOPPING)
        while engine.inflight or engine.connections_open:
            await asyncio.sleep(0.001)

"""Serves the simulator on a socket, as `vllm serve` is served: uvicorn, uvloop, 5 s keep-alive."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

import uvicorn

from proxy.simulator.log_lines import farewell_lines, serving_lines, start_up_lines
from proxy.simulator.server import create_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.simulator.log_lines import LogLine
    from proxy.simulator.options import SimulatorOptions
    from proxy.simulator.server import SimulatedServer
    from proxy.simulator.simulated_engine import SimulatedEngine

_KEEP_ALIVE_S = 5
# For answers to reach their clients once the engine has stopped.
_GRACE_S = 1
_BACKLOG = 2048
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class PortTakenError(Exception):
    """Somebody listens there already, or it cannot be bound; the message says which."""


async def serve_simulator(
    options: SimulatorOptions,
    host: str,
    port: int,
    ready: Callable[[str], None] = lambda _url: None,
    log: Callable[[LogLine], None] = lambda _line: None,
) -> None:
    """Serves until a signal or the engine's death ends it. `port` 0: any free one.

    `ready` is called with the base URL once connections are accepted. Raises PortTakenError.
    """
    with bind(host, port) as listener:
        url = _url_of(host, listener)
        for line in start_up_lines(options, url):
            log(line)
        app = create_app(options, log)
        engine = app.state.engine
        server = _Server(_config(app), engine, lambda: ready(url), log)
        engine.on_exit = server.stop_soon
        await server.serve(sockets=[listener])


def _config(app: SimulatedServer) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="none",  # the caller's loop runs it
        http="httptools",
        lifespan="on",
        log_config=None,
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
    )


def print_log_line(line: LogLine) -> None:
    """To stderr; stdout is for the line that says that the server is ready."""
    print(line.format(os.getpid(), time.time()), file=sys.stderr, flush=True)  # noqa: T201 - a log


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises PortTakenError with one line that says why there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        raise PortTakenError(f"cannot listen on {host} port {port}: {reason}") from error
    listener.setblocking(False)
    return listener


def _url_of(host: str, listener: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"


class _Server(uvicorn.Server):
    """Says when it accepts connections, and ends what the engine still works on when it stops."""

    def __init__(
        self,
        config: uvicorn.Config,
        engine: SimulatedEngine,
        ready: Callable[[], None],
        log: Callable[[LogLine], None],
    ) -> None:
        super().__init__(config)
        self._engine = engine
        self._ready = ready
        self._log = log

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A signal ends the server as vLLM's ends: with exit code 0, where uvicorn's would not."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self.stop_soon)
        try:
            yield
        finally:
            for number in _STOP_SIGNALS:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._say(serving_lines(os.getpid()))
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._engine.stop()
        await super().shutdown(sockets)
        self._say(farewell_lines())

    def _say(self, lines: list[LogLine]) -> None:
        for line in lines:
            self._log(line)

    def stop_soon(self) -> None:
        self.should_exit = True

"""A simulated engine that can be stopped, killed and started again where it was."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.engine_process import EngineProcess, free_port
from tests.support.simulated_vllm import running_simulator

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class RestartableEngine:
    """`arguments` are those of `sluice sim`, besides those of every test. Its methods wait in a
    thread, so that what runs in the event loop goes on."""

    log: Path
    arguments: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    _running: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, init=False)
    _process: EngineProcess | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Returns when it answers its health check."""
        starting = running_simulator(self.log, *self.arguments, port=self.port)
        self._process = await asyncio.to_thread(self._running.enter_context, starting)

    async def stop(self) -> None:
        """With SIGTERM; returns when it has ended. Harmless when it does not run."""
        await asyncio.to_thread(self._running.close)

    async def kill(self) -> None:
        """With SIGKILL; returns when it has ended."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        await self.stop()

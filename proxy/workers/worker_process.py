"""One worker as its parent holds it: a process, and the channel to it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from typing import TYPE_CHECKING

from proxy.workers.channel import ParentEnd

if TYPE_CHECKING:
    from proxy.workers.changes import Changes
    from proxy.workers.orders import Orders
    from proxy.workers.report import WorkerReport

_MODULE = "proxy.cli.worker"
_LAST_WORDS_WITHIN_S = 1.0


class WorkerProcess:
    """Started by start(); ended() must be awaited."""

    def __init__(self, process: asyncio.subprocess.Process, channel: ParentEnd) -> None:
        self._process = process
        self._channel = channel
        self._listening = asyncio.create_task(channel.listen(), name=f"worker {process.pid}")

    @classmethod
    async def start(cls, orders: Orders, listener: socket.socket) -> WorkerProcess:
        """It serves on `listener`, which is closed here: it lives and dies with the worker.

        The worker has a session of its own, so that a Ctrl-C on the terminal is the parent's to
        pass on. Raises OSError.
        """
        ours, its = socket.socketpair()
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(ours.close)
            with listener, its:
                handed = (its.fileno(), listener.fileno())
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", _MODULE, *map(str, handed)),
                    stdin=asyncio.subprocess.PIPE,
                    pass_fds=handed,
                    start_new_session=True,
                )
            on_failure.pop_all()
        await _tell(process, orders)
        return cls(process, await ParentEnd.open(ours))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def latest(self) -> WorkerReport | None:
        return self._channel.latest

    async def ask(self, within_s: float) -> bool:
        return await self._channel.ask(within_s)

    def change(self, changes: Changes) -> None:
        self._channel.change(changes)

    async def ready(self) -> bool:
        """Waits until it serves; False when it has ended before."""
        return await self._channel.ready()

    async def ended(self) -> int:
        """Waits for its end and its last words; the exit code, or minus the number of a signal."""
        code = await self._process.wait()
        # The channel is closed with the process, and its last words are in it. Nobody else has it;
        # if somebody did, the end of a worker would not wait for him.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_WITHIN_S):
                await self._listening
        return code

    def terminate(self) -> None:
        """It is to drain; if it does not serve yet, to end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()


async def _tell(process: asyncio.subprocess.Process, orders: Orders) -> None:
    """By its standard input, which no process list shows: there are keys in the settings."""
    if process.stdin is not None:
        with contextlib.suppress(ConnectionError):  # it has ended already, which ended() tells
            process.stdin.write(orders.written())
            await process.stdin.drain()
        process.stdin.close()

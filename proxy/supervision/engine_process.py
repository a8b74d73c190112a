"""The engine as a child of ours, with its keeper in between (keeper.py)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.supervision import keeper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_KEEPER = str(Path(keeper.__file__))
# For what is still in the pipe once all that could write to it are gone.
_LAST_WORDS_S = 2.0


class EngineProcess:
    """Made by start()."""

    def __init__(self, process: asyncio.subprocess.Process, leash: int, output: _Output) -> None:
        self._process = process
        self._leash = leash
        self._output = output
        self._end = asyncio.create_task(self._until_gone(), name="engine end")

    @classmethod
    async def start(
        cls, command: Sequence[str], environment: Mapping[str, str], take: Callable[[bytes], None]
    ) -> EngineProcess:
        """What it writes goes to `take`, block by block.

        It gets a session of its own: Ctrl-C on the terminal is for us, who stop it in our time. The
        pipes are ours rather than asyncio's, which waits for the end of a process until all ends of
        its pipes are closed, and what outlives the keeper would hold them.
        """
        leash_end, leash = os.pipe()
        reading, writing = os.pipe()
        output = _Output(take)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: output, os.fdopen(reading, "rb", buffering=0))
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", _KEEPER, *command),
                env=dict(environment),
                stdin=leash_end,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
            )
        finally:
            os.close(leash_end)
            os.close(writing)
        return cls(process, leash, output)

    async def ended(self) -> int:
        """Its exit code, 128 + N if signal N ended it, once all it wrote has been taken and none
        of its processes is left. May be cancelled and asked again."""
        return await asyncio.shield(self._end)

    def leave(self) -> None:
        """If we end from now on without stop(), it is to be killed at once."""
        self._order(keeper.LEAVING)

    async def stop(self, within_s: float) -> int:
        """SIGTERM; after `within_s` SIGKILL to all of it."""
        self._order(keeper.TERMINATE)
        try:
            async with asyncio.timeout(within_s):
                return await self.ended()
        except TimeoutError:
            self._order(keeper.KILL)
            return await self.ended()

    def _order(self, order: bytes) -> None:
        if not self._end.done():
            with contextlib.suppress(BrokenPipeError):
                os.write(self._leash, order)  # a few bytes in all: a pipe holds them unread

    async def _until_gone(self) -> int:
        code = await self._process.wait()
        if code < 0:  # somebody killed the keeper: the rest of its process group is for us
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._output.ended.wait(), _LAST_WORDS_S)
        self._output.close()
        os.close(self._leash)
        return code if code >= 0 else 128 - code


class _Output(asyncio.Protocol):
    """Takes what comes out of a pipe, to its end."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._transport: asyncio.BaseTransport | None = None
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._take(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.ended.set()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

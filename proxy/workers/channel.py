"""The talk between a worker and its parent, over a pair of sockets that only they have.

The parent asks with one byte, the worker answers with a frame: four bytes that say how long, and a
report. It also sends one unasked when it is ready, and a last one when it ends. Another byte of the
parent's is followed by a frame with what was changed, which is not answered: whoever asks after it
hears of a worker that has adopted it, or has said in its log why it could not. Whichever end
vanishes, however that was, the other one finds the channel closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from proxy.workers.changes import Changes
from proxy.workers.report import decode, encode

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable

    from proxy.workers.report import WorkerReport

_log = logging.getLogger("sluice.workers")

_QUESTION = b"?"
_CHANGE = b"!"
_LENGTH_BYTES = 4


class WorkerEnd:
    """What a worker holds. `report` gives what is to be told now, `adopt` is given changes."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        report: Callable[[], WorkerReport],
        adopt: Callable[[Changes], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._report = report
        self._adopt = adopt

    @classmethod
    async def open(
        cls,
        one: socket.socket,
        report: Callable[[], WorkerReport],
        adopt: Callable[[Changes], None],
    ) -> WorkerEnd:
        return cls(*await asyncio.open_unix_connection(sock=one), report, adopt)

    def tell(self) -> None:
        """A report, unasked. Nobody waits for it to arrive."""
        self._writer.write(_frame(encode(self._report())))

    async def answer(self) -> None:
        """Until the parent is gone. Raises what report() does: a worker of which nobody can be told
        how it is had better end. One that cannot adopt a change serves on as it is, and hears the
        next."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while kind := await self._reader.read(1):
                if kind == _QUESTION:
                    self.tell()
                else:
                    self._change(await _content(self._reader))

    def _change(self, written: bytes) -> None:
        try:
            self._adopt(Changes.read(written))
        except Exception:  # noqa: BLE001 - whatever it is: the parent must go on being heard
            _log.exception("a worker could not adopt what was changed, and serves on as it is")

    async def close(self) -> None:
        """What was told gets there, if anybody listens."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


class ParentEnd:
    """What the parent holds for one worker. `latest` is None until the worker is ready."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.latest: WorkerReport | None = None
        self._reader = reader
        self._writer = writer
        self._asked = 0
        self._answered = 0
        self._news = asyncio.Condition()
        self.is_closed = False

    @classmethod
    async def open(cls, one: socket.socket) -> ParentEnd:
        return cls(*await asyncio.open_unix_connection(sock=one))

    async def listen(self) -> None:
        """Until the worker is gone."""
        try:
            async for report in self._frames():
                async with self._news:
                    # The first report is nobody's answer: nobody asks before it is there.
                    self._answered += self.latest is not None
                    self.latest = report
                    self._news.notify_all()
        finally:
            self._writer.close()
            async with self._news:
                self.is_closed = True
                self._news.notify_all()

    async def ready(self) -> bool:
        """Waits for the first report; False when the worker is gone without one."""
        async with self._news:
            await self._news.wait_for(lambda: self.latest is not None or self.is_closed)
        return self.latest is not None

    async def ask(self, within_s: float) -> bool:
        """`latest` is then from after the call. False when no answer came: it is older."""
        if self.latest is None or self.is_closed:
            return False
        self._asked += 1
        mine = self._asked
        self._writer.write(_QUESTION)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s), self._news:
                await self._news.wait_for(lambda: self._answered >= mine or self.is_closed)
        return self._answered >= mine

    def change(self, changes: Changes) -> None:
        """Passes them on; nobody waits for them to arrive."""
        if not self.is_closed:
            self._writer.write(_CHANGE + _frame(changes.written()))

    async def _frames(self) -> AsyncIterator[WorkerReport]:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                yield decode(await _content(self._reader))


def _frame(content: bytes) -> bytes:
    return len(content).to_bytes(_LENGTH_BYTES) + content


async def _content(reader: asyncio.StreamReader) -> bytes:
    """Of the next frame. Raises IncompleteReadError where there is none."""
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
    return await reader.readexactly(length)

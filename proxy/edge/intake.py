"""Reads a request body, bounded in size, in time, and in what all bodies being read may hold."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.edge.client_watch import Interrupted, Interruption
from proxy.openai_api.blocks import Blocks
from proxy.upstream.late_expiry import GRACE_S, is_noticed_late

if TYPE_CHECKING:
    from starlette.types import Receive

JOINED_UP_TO_BYTES = 256 * 1024
"""A body above this stays in blocks of about that size, and is worked on in steps."""


class BodyTooLargeError(Exception):
    """The body is, or says it will be, larger than the limit."""


class BodyTimeoutError(Exception):
    """The body did not come within its time. `received` is in bytes."""

    def __init__(self, received: int) -> None:
        super().__init__(received)
        self.received = received


class IntakeFullError(Exception):
    """Bodies being uploaded already hold all the memory that they may. `most` is in bytes."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most = most


@dataclass(slots=True)
class Intake:
    """Bounds for bodies. `max_buffered_bytes` bounds the sum over all bodies still being read.

    A body that is being uploaded holds neither a seat nor a place in the queue, so the number of
    uploads says nothing about memory; their sum does.
    """

    max_body_bytes: int
    body_timeout_s: float
    max_buffered_bytes: int
    buffered_bytes: int = 0

    def accept(self, body: bytes) -> bytes:
        """A body of which every byte is here. Raises BodyTooLargeError."""
        if len(body) > self.max_body_bytes:
            raise BodyTooLargeError
        return body

    async def read(self, receive: Receive, declared_bytes: int | None) -> bytes | Blocks:
        """The whole body, in one piece only if it is small. `declared_bytes` is its Content-Length,
        None when it is chunked.

        Raises BodyTooLargeError (for a declared length before reading anything),
        BodyTimeoutError, IntakeFullError, and Interrupted when the client leaves.
        """
        if declared_bytes is not None and declared_bytes > self.max_body_bytes:
            raise BodyTooLargeError
        body = _GrowingBody()
        due = asyncio.get_running_loop().time() + self.body_timeout_s
        try:
            try:
                async with asyncio.timeout_at(due):
                    return await self._read_on(body, receive)
            except TimeoutError:
                if not is_noticed_late(due):
                    raise
                async with asyncio.timeout(GRACE_S):
                    return await self._read_on(body, receive)
        except TimeoutError:
            raise BodyTimeoutError(body.received) from None
        finally:
            self.buffered_bytes -= body.received

    async def _read_on(self, body: _GrowingBody, receive: Receive) -> bytes | Blocks:
        """To the end. May be interrupted while it waits, and called again."""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Interrupted(Interruption.CLIENT_GONE)
            chunk: bytes = message.get("body", b"")
            self._check(body.received, len(chunk))
            body.received += len(chunk)  # first: what is counted is taken back, also if add() fails
            self.buffered_bytes += len(chunk)
            body.add(chunk)
            if not message.get("more_body", False):
                return body.whole()

    def _check(self, received: int, more: int) -> None:
        if received + more > self.max_body_bytes:
            raise BodyTooLargeError
        if self.buffered_bytes + more > self.max_buffered_bytes:
            raise IntakeFullError(self.max_buffered_bytes)


class _GrowingBody:
    """Pieces that are joined in the end if they are few, or else as they come, to large blocks."""

    __slots__ = ("_blocks", "_pieces", "_size", "received")

    def __init__(self) -> None:
        self.received = 0
        """In bytes."""
        self._blocks: list[bytes] = []
        self._pieces: list[bytes] = []
        self._size = 0
        """Of the pieces that are in no block yet."""

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > JOINED_UP_TO_BYTES:
            self._close_block()

    def whole(self) -> bytes | Blocks:
        if not self._blocks:
            return b"".join(self._pieces)
        self._close_block()
        return Blocks(self._blocks)

    def _close_block(self) -> None:
        self._blocks.append(b"".join(self._pieces))
        self._pieces.clear()
        self._size = 0

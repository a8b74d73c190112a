"""The limit that one would write first: a semaphore, a count of those who wait, a timeout."""

from __future__ import annotations

import asyncio
import os

from fastapi import HTTPException


class SemaphoreGate:
    """SEATS, PLACES and QUEUE_TIMEOUT_S come from the environment."""

    def __init__(self) -> None:
        self._seats = asyncio.Semaphore(int(os.environ.get("SEATS", "64")))
        self._places = int(os.environ.get("PLACES", "128"))
        self._timeout_s = float(os.environ.get("QUEUE_TIMEOUT_S", "5"))
        self._waiting = 0

    async def enter(self) -> None:
        if self._seats.locked() and self._waiting >= self._places:
            raise HTTPException(503, "the queue is full")
        self._waiting += 1
        try:
            await asyncio.wait_for(self._seats.acquire(), self._timeout_s)
        except TimeoutError:
            raise HTTPException(503, "waited too long") from None
        finally:
            self._waiting -= 1

    def leave(self) -> None:
        self._seats.release()

"""An asyncio.Event for what there is one of per connection and per request.

asyncio's keeps its waiters in a deque, which takes 700 bytes while nobody waits: three of them
(uvicorn has one more for pipelined requests) were a tenth of what an open stream held (2026-12).
"""

from __future__ import annotations

import asyncio


class LightEvent(asyncio.Event):
    """Behaves as asyncio.Event does; hardly anybody waits at the same time as somebody else."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self, *, is_set: bool = False) -> None:
        self._is_set = is_set
        self._waiting: tuple[asyncio.Future[None], ...] = ()

    def __repr__(self) -> str:
        return f"<LightEvent is_set={self._is_set} waiting={len(self._waiting)}>"

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def clear(self) -> None:
        self._is_set = False

    async def wait(self) -> bool:  # type: ignore[override]  # typeshed says Literal[True]
        if not self._is_set:
            future = asyncio.get_running_loop().create_future()
            self._waiting += (future,)
            try:
                await future
            finally:
                self._waiting = tuple(other for other in self._waiting if other is not future)
        return True

"""uvloop, as the gateway runs on it, that can tell which of its timers have not come yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import uvloop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from contextvars import Context


class WatchedLoop(uvloop.Loop):
    """uvloop keeps its timers in C. Every way to set one leads through call_later."""

    def __init__(self) -> None:
        super().__init__()
        self._pending: dict[object, tuple[asyncio.TimerHandle, Callable[..., object]]] = {}

    def call_later(  # type: ignore[override]  # uvloop's stub names the types of *args
        self,
        delay: float,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        key = object()

        def fire(*passed: object) -> None:
            self._pending.pop(key, None)
            callback(*passed)

        handle: asyncio.TimerHandle = super().call_later(delay, fire, *args, context=context)
        self._pending[key] = handle, callback
        return handle

    def timers(self) -> list[Callable[..., object]]:
        """What will be called, if nothing happens before."""
        for key in [key for key, (handle, _) in self._pending.items() if handle.cancelled()]:
            del self._pending[key]
        return [callback for _, callback in self._pending.values()]

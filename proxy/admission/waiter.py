"""One request in the queue."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.admission.permit import Permit

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.admission.bypass import Bypass
    from proxy.admission.outcome import Evicted
    from proxy.admission.request import AdmissionRequest


class Waiter(asyncio.Future["Permit | Evicted"]):
    """Waits for its permit or its eviction, whichever is decided first.

    It is a future, rather than having one, because asyncio cancels a task by calling cancel() on
    the future that the task awaits. So a waiter whose client has left is out of the queue in that
    very step, and no decision made before the task next runs can take it for alive.
    """

    __slots__ = ("_left", "bypass", "joined_at", "request", "timer", "width")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        request: AdmissionRequest,
        width: int,
        joined_at: float,
        left: Callable[[Waiter], None],
    ) -> None:
        super().__init__(loop=loop)
        self.request = request
        self.width = width
        self.joined_at = joined_at
        self.timer: asyncio.TimerHandle | None = None
        self.bypass: Bypass | None = None
        """Once it has been the head and did not fit: who may pass it."""
        self._left = left

    def cancel(self, msg: str | None = None) -> bool:
        if not super().cancel(msg):
            return False
        self._left(self)
        return True

    def moves(self, width: int, left: Callable[[Waiter], None]) -> None:
        """To another queue."""
        self.width = width
        self.bypass = None
        self._left = left

    async def outcome(self) -> Permit | Evicted:
        """The permit or the eviction. Cancelled after the grant, it gives the seats on."""
        try:
            return await self
        except asyncio.CancelledError:
            if not self.cancelled() and isinstance(granted := self.result(), Permit):
                granted.ignore()
            raise

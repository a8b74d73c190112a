"""Takes a sample of the gateway once a second, for the charts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.edge.status.history import SAMPLE_EVERY_S

if TYPE_CHECKING:
    from collections.abc import Callable


class StatusWatch:
    """Calls `sample` from start() to stop()."""

    def __init__(self, sample: Callable[[], None]) -> None:
        self._sample = sample
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Needs a running event loop."""
        self._task = asyncio.create_task(self._watch(), name="status")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            self._sample()
            await asyncio.sleep(SAMPLE_EVERY_S)

"""Attempts without the admin token, written down so that a flood of them fills no disk.

The first is a line at once. Of those that follow there is a line a second, which says how many they
were: who tries, and how hard, is known, and what else is in the log stays findable.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

_log = logging.getLogger("sluice.admin")

LINE_EVERY_S: Final = 1.0


class StrangerLog:
    """To be used in one event loop."""

    def __init__(self) -> None:
        self._window: asyncio.TimerHandle | None = None
        self._left_out = 0
        self._latest = ""

    def note(self, who: str, path: str) -> None:
        """Somebody without a valid token asked for `path`."""
        if self._window is None:
            _log.warning("%s: no valid token for %s", who, path)
            self._begin_window()
        else:
            self._left_out += 1
            self._latest = who

    def _begin_window(self) -> None:
        loop = asyncio.get_running_loop()
        self._window = loop.call_later(LINE_EVERY_S, self._end_window)

    def _end_window(self) -> None:
        left_out, self._left_out = self._left_out, 0
        self._window = None
        if left_out:
            _log.warning(
                "%d more attempts without a valid token, the last by %s", left_out, self._latest
            )
            self._begin_window()

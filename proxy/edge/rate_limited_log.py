"""Warnings that anybody may cause as often as they like, written so that a flood fills no disk.

The first is a line at once. Of those that follow there is a line a second, which says how many they
were: who tries, and how hard, is known, and what else is in the log stays findable.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging

LINE_EVERY_S: Final = 1.0


class RateLimitedLog:
    """To be used in one event loop."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._window: asyncio.TimerHandle | None = None
        self._left_out = 0
        self._latest = ""

    def warning(self, line: str, in_number: str) -> None:
        """`in_number`: the same of several, as it reads behind "12 more "."""
        if self._window is None:
            self._log.warning("%s", line)
            self._begin_window()
        else:
            self._left_out += 1
            self._latest = in_number

    def _begin_window(self) -> None:
        loop = asyncio.get_running_loop()
        self._window = loop.call_later(LINE_EVERY_S, self._end_window)

    def _end_window(self) -> None:
        left_out, self._left_out = self._left_out, 0
        self._window = None
        if left_out:
            self._log.warning("%d more %s", left_out, self._latest)
            self._begin_window()

"""The two forms of a log line."""

from __future__ import annotations

import enum


class LogFormat(enum.StrEnum):
    """CONSOLE is for a person at a terminal, JSON for a log store: one object a line."""

    CONSOLE = "console"
    JSON = "json"

    @classmethod
    def for_stream(cls, is_terminal: bool) -> LogFormat:
        """The form to take when nobody chose one."""
        return cls.CONSOLE if is_terminal else cls.JSON

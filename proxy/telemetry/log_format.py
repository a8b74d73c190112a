"""The two forms of a log line."""

from __future__ import annotations

import enum


class LogFormat(enum.StrEnum):
    """CONSOLE is for a person at a terminal, JSON for a log store: one object a line."""

    CONSOLE = "console"
    JSON = "json"

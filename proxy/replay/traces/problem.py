"""What can be wrong with a trace, in one line."""

from __future__ import annotations


class BadTraceError(Exception):
    """Which file, which line of it, what is wrong."""


class BadLineError(ValueError):
    """What is wrong with one line; who knows the file adds its name and the line's number."""

"""What is known about one engine when a page is asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineView:
    """None means unknown, and is left off the page: absent is never zero.

    `running` and `waiting` count requests inside the engine, `kv_cache_usage` goes from 0 to 1,
    `metrics_age_s` is the time in seconds since the engine's own metrics were last read.
    `taken_out`: it gets nothing, or one request at a time to try it, because requests failed there.
    `open_requests` of ours are there and take no seat.
    """

    up: bool | None = None
    stalled: bool | None = None
    running: float | None = None
    waiting: float | None = None
    kv_cache_usage: float | None = None
    metrics_age_s: float | None = None
    taken_out: bool | None = None
    open_requests: int | None = None

"""The trace: one JSON line a request with times, sizes and outcome, for `sluice replay`.

It tells when requests came, how large they were and how they fared, and nothing about who sent
them or what they said: no text, no key, no model, no request id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from proxy.telemetry.request_outcome import RequestOutcome  # noqa: TC001 - msgspec reads the types

if TYPE_CHECKING:
    from proxy.telemetry.line_writer import LineSink
    from proxy.telemetry.request_record import RequestRecord

TRACE_VERSION: Final = 2
"""2 added the last four fields; whoever reads 1 can read it."""
_MICROSECOND_DIGITS: Final = 6


class TraceLine(msgspec.Struct, frozen=True, gc=False):
    """One line of the file; the meaning and units of a field are RequestRecord's.

    `offset_s` is the arrival on a clock that never jumps, counted from the start of the gateway;
    `arrived_wall_s` is Unix time and tells one start from the next.
    """

    v: int
    arrived_wall_s: float
    offset_s: float
    route: str
    outcome: RequestOutcome
    status: int
    seats: int
    body_bytes: int
    response_bytes: int
    stream: bool
    attempt: int
    queue_wait_s: float | None
    ttfb_s: float | None
    duration_s: float
    prompt_bytes: int
    max_tokens: int | None
    prompt_tokens: int | None
    output_tokens: int | None


class TraceFile:
    """Writes a TraceLine for each request. `started_at_s` is the time of the start, on the
    clock of the records' `arrived_at_s`."""

    def __init__(self, sink: LineSink, started_at_s: float) -> None:
        self._sink = sink
        self._started_at_s = started_at_s
        self._encode = msgspec.json.Encoder().encode

    def write(self, record: RequestRecord) -> None:
        line = TraceLine(
            TRACE_VERSION,
            record.arrived_wall_s,
            _rounded(record.arrived_at_s - self._started_at_s),
            record.route,
            record.outcome,
            record.status,
            record.seats,
            record.body_bytes,
            record.response_bytes,
            record.stream,
            record.attempt,
            None if record.queue_wait_s is None else _rounded(record.queue_wait_s),
            None if record.ttfb_s is None else _rounded(record.ttfb_s),
            _rounded(record.duration_s),
            record.prompt_bytes,
            record.max_tokens,
            record.prompt_tokens,
            record.output_tokens,
        )
        self._sink.write(self._encode(line) + b"\n")


def _rounded(seconds: float) -> float:
    return round(seconds, _MICROSECOND_DIGITS)

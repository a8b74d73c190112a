"""W3C Trace Context (level 1): whose trace a request belongs to, and what the engine is told of it.

The ids are drawn when a request comes, as the engine has to hear them; the spans are written when
it is over (otel_spans.py). Without tracing nothing of this is asked, and what the client sent in
`traceparent` and `tracestate` passes as it came.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

_PARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1


class TraceContext(NamedTuple):
    """`parent_id` is the caller's span, 0 if there is none; `span_id` is ours for the request,
    `engine_span_id` the one that the engine hangs its own spans on."""

    trace_id: int
    parent_id: int
    span_id: int
    engine_span_id: int
    is_sampled: bool

    @property
    def hex_id(self) -> str:
        """As people and Prometheus write it."""
        return f"{self.trace_id:032x}"

    def passed_on(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """The fields for the engine. A tracestate belongs to the trace that it came with."""
        dropped = (b"traceparent",) if self.parent_id else (b"traceparent", b"tracestate")
        passed = [field for field in headers if field[0].lower() not in dropped]
        flags = _SAMPLED if self.is_sampled else 0
        value = b"00-%032x-%016x-%02x" % (self.trace_id, self.engine_span_id, flags)
        passed.append((b"traceparent", value))
        return passed


class Tracing:
    """`share`: of the traces that begin here, how many are recorded; for others the caller says."""

    def __init__(self, share: float, rng: random.Random) -> None:
        self._recorded_below = round(share * (1 << 64))
        self._rng = rng

    def begin(self, headers: Iterable[tuple[bytes, bytes]]) -> TraceContext:
        """For a request with these raw headers. A traceparent that is not sound counts as none."""
        given = [value for name, value in headers if name.lower() == b"traceparent"]
        parent = _read(given[0]) if len(given) == 1 else None
        span_id, engine_span_id = self._id(64), self._id(64)
        if parent is not None:
            return TraceContext(*parent[:2], span_id, engine_span_id, is_sampled=parent[2])
        trace_id = self._id(128)
        # By the id, so that everybody who begins traces at this share would decide alike.
        is_sampled = trace_id & (1 << 64) - 1 < self._recorded_below
        return TraceContext(trace_id, 0, span_id, engine_span_id, is_sampled)

    def _id(self, bits: int) -> int:
        return self._rng.getrandbits(bits) or 1  # 0 is nobody's


def _read(value: bytes) -> tuple[int, int, bool] | None:
    found = _PARENT.fullmatch(value.strip())
    if found is None:
        return None
    version, trace_id, parent_id, flags, more = found.groups()
    if version == b"ff" or (version == b"00" and more):
        return None
    ids = int(trace_id, 16), int(parent_id, 16)
    return (*ids, bool(int(flags, 16) & _SAMPLED)) if all(ids) else None

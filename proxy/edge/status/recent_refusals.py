"""The last requests that were refused, for whoever asks why. No text, no keys, no names."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

from proxy.telemetry.request_outcome import RequestOutcome

if TYPE_CHECKING:
    from proxy.telemetry.request_record import RequestRecord

_KEPT = 50
# In a flood nobody can read more, and a record of each would cost as much as the refusal.
_EVERY_S = 0.05
_REFUSED = frozenset({RequestOutcome.SHED, RequestOutcome.REJECTED})


class RecentRefusals:
    """Takes one now and then; times on the clock of the gateway."""

    def __init__(self) -> None:
        self._records: deque[RequestRecord] = deque(maxlen=_KEPT)
        self._next_at = -math.inf

    def wants(self, outcome: RequestOutcome, now: float) -> bool:
        """Whether a record of what has just ended is worth making."""
        return outcome in _REFUSED and now >= self._next_at

    def note(self, record: RequestRecord, now: float) -> None:
        self._next_at = now + _EVERY_S
        self._records.append(record)

    def latest(self) -> list[dict[str, Any]]:
        """The newest first. `at` is Unix time, the wait is in seconds."""
        return [
            {
                "at": round(record.arrived_wall_s + record.duration_s, 3),
                "request_id": record.request_id,
                "route": record.route,
                "reason": record.reason,
                "status": record.status,
                "waited_s": record.queue_wait_s,
                "attempt": record.attempt,
            }
            for record in reversed(self._records)
        ]

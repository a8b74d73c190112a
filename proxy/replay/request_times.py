"""The times by which a request is judged, and the objective that they are held against.

All count from the arrival, so that refused tries and the waits between them are part of them:

    ttft  first token - arrival
    e2e   end - arrival
    tpot  (last token - first token) / (output tokens - 1), from two tokens on
    itl   each gap between two chunks with tokens

Of a request for several sequences tpot and itl are of one of them: they are written side by side.
"""

from __future__ import annotations

from operator import sub
from typing import TYPE_CHECKING

import msgspec

from proxy.replay.outcome import Fate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.replay.outcome import RequestRecord


class Objective(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a whole answer a good one, in seconds; None asks for nothing."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    def met_by(self, ttft_s: float | None, tpot_s: float | None, e2e_s: float) -> bool:
        """An answer of one token has no time per token, and so cannot miss that part."""
        if self.ttft_s is not None and (ttft_s is None or ttft_s > self.ttft_s):
            return False
        if self.tpot_s is not None and tpot_s is not None and tpot_s > self.tpot_s:
            return False
        return self.e2e_s is None or e2e_s <= self.e2e_s


def is_good(record: RequestRecord, objective: Objective) -> bool:
    return record.fate is Fate.COMPLETED and objective.met_by(
        ttft_s(record), tpot_s(record), e2e_s(record)
    )


def ttft_s(record: RequestRecord) -> float | None:
    return None if record.first_token_s is None else record.first_token_s - record.arrived_s


def e2e_s(record: RequestRecord) -> float:
    return record.ended_s - record.arrived_s


def tpot_s(record: RequestRecord) -> float | None:
    tokens = record.output_tokens / record.sequences
    if record.first_token_s is None or tokens < 2:
        return None
    return (last_token_s(record) - record.first_token_s) / (tokens - 1)


def last_token_s(record: RequestRecord) -> float:
    """Since the start; an answer without times of its own came at its end."""
    return record.token_times[-1] if record.token_times else record.ended_s


def gaps_s(record: RequestRecord) -> Iterator[float]:
    times = record.token_times
    return iter(()) if times is None else map(sub, times[1:], times)

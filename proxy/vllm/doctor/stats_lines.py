"""The engine's periodic lines, V0's and V1's: how many run and wait, how full the KV cache is.

They are the only relevant lines that come by the million, so they are read as bytes.
"""

import re
from typing import NamedTuple

from proxy.vllm.doctor.evidence import EvidenceLine, StatsSummary

NEEDLE = b"KV cache "  # usage, size, space
_STATS = re.compile(
    rb"Running: (\d{1,9}) reqs?,(?: Swapped: (\d{1,9}) reqs?,)?"
    rb" (?:Waiting|Pending): (\d{1,9}) reqs?(?:.*?Preemptions: (\d{1,9}))?"
    rb".*?KV cache usage: (\d{1,4}(?:\.\d{1,9})?)%"
)
_LONGEST = 2_048


class StatsLine(NamedTuple):
    """One line; a NamedTuple is the cheapest value to make."""

    running: int
    swapped: int | None
    waiting: int
    preemptions: int
    kv_usage: float


def read_stats(line: bytes) -> StatsLine | None:
    """None when the line is none of them."""
    found = _STATS.search(line, 0, _LONGEST)
    if found is None:
        return None
    running, swapped, waiting, preemptions, usage = found.groups()
    return StatsLine(
        running=int(running),
        swapped=int(swapped) if swapped else None,
        waiting=int(waiting),
        preemptions=int(preemptions or 0),
        kv_usage=float(usage) / 100,
    )


class StatsSum:
    """Adds lines up. They come by the million, so this one changes in place."""

    __slots__ = ("_last", "_lines", "_peak", "_preemptions", "_running", "_waiting", "peak_line")

    def __init__(self) -> None:
        self.peak_line: EvidenceLine | None = None
        self._lines = 0
        self._preemptions = 0
        self._running = 0
        self._waiting = 0
        self._peak = -1.0
        self._last: StatsLine | None = None

    def is_fullest(self, line: StatsLine) -> bool:
        return line.kv_usage > self._peak

    def add(self, line: StatsLine) -> None:
        self._lines += 1
        self._preemptions += line.preemptions
        self._running = max(self._running, line.running)
        self._waiting = max(self._waiting, line.waiting)
        self._peak = max(self._peak, line.kv_usage)
        self._last = line

    def summary(self) -> StatsSummary:
        last = self._last
        if last is None:
            return StatsSummary()
        return StatsSummary(
            lines=self._lines,
            peak_running=self._running,
            peak_waiting=self._waiting,
            last_running=last.running,
            last_waiting=last.waiting,
            peak_kv_usage=self._peak,
            last_kv_usage=last.kv_usage,
            preemptions=self._preemptions,
            peak_line=self.peak_line,
        )

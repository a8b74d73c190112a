"""What a recording of the memory says about one replay: its part of the time, on its clock.

Understood is the file of `sluice record`, and nvidia-smi's CSV whose clock is set to UTC.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from proxy.replay.result import BadResultError
from proxy.vllm.memory_curve.reader import read_memory_curve

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.replay.result import Run
    from proxy.vllm.memory_curve.reader import MemorySample

_KV_USAGE = "engine.kv_cache_usage"
_PREEMPTIONS = "engine.preemptions_total"
_LEAD_S = 5.0
"""Before the first arrival and after the last answer, so that idle times are seen, too."""


@dataclass(slots=True)
class Curve:
    """Values at seconds since the start of the replay."""

    times_s: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def add(self, time_s: float, value: float) -> None:
        self.times_s.append(time_s)
        self.values.append(value)


@dataclass(slots=True)
class RecordingView:
    """`used_share` by GPU: memory in use, 0 to 1 of the card; `used_gib` the same in GiB."""

    used_share: dict[int, Curve] = field(default_factory=dict)
    used_gib: dict[int, Curve] = field(default_factory=dict)
    kv_cache_usage: Curve = field(default_factory=Curve)
    preemptions: Curve = field(default_factory=Curve)

    def add(self, time_s: float, sample: MemorySample) -> None:
        if sample.used is not None:
            self.used_gib.setdefault(sample.gpu, Curve()).add(time_s, sample.used / (1 << 30))
            if sample.total:
                share = sample.used / sample.total
                self.used_share.setdefault(sample.gpu, Curve()).add(time_s, share)
        for name, curve in ((_KV_USAGE, self.kv_cache_usage), (_PREEMPTIONS, self.preemptions)):
            value = sample.extra.get(name)
            # One row a GPU: the engine's own figures stand in each of them.
            if value is not None and (not curve.times_s or curve.times_s[-1] < time_s):
                curve.add(time_s, value)


@dataclass(slots=True)
class _Seen:
    """Of all samples how many there were and of which times, of those of the run a view."""

    view: RecordingView = field(default_factory=RecordingView)
    samples: int = 0
    of_the_run: int = 0
    first_s: float = math.inf
    last_s: float = -math.inf

    def add(self, sample: MemorySample, run: Run) -> None:
        self.samples += 1
        self.first_s, self.last_s = min(self.first_s, sample.at_s), max(self.last_s, sample.at_s)
        time_s = sample.at_s - run.started_unix_s
        if -_LEAD_S <= time_s <= run.elapsed_s + _LEAD_S:
            self.of_the_run += 0 <= time_s <= run.elapsed_s
            self.view.add(time_s, sample)


def read_recording(path: Path, run: Run) -> RecordingView:
    """Raises BadResultError, a line that says what is wrong with the file."""
    seen = _Seen()
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for sample in read_memory_curve(lines):
                seen.add(sample, run)
    except OSError as error:
        raise BadResultError(f"{path}: {error.strerror or error}") from error
    if problem := _problem(seen, run):
        raise BadResultError(f"{path}: {problem}")
    return seen.view


def _problem(seen: _Seen, run: Run) -> str | None:
    if not seen.samples:
        return "no recording: it has no rows of sluice record or of nvidia-smi --format=csv"
    if seen.of_the_run:
        return None
    played = _span(run.started_unix_s, run.started_unix_s + run.elapsed_s)
    return (
        f"a recording of {_span(seen.first_s, seen.last_s)}, which has no sample of the replay of "
        f"{played} (nvidia-smi's clock must be set to UTC)"
    )


def _span(first_s: float, last_s: float) -> str:
    """The second moment without its day where that is the same."""
    first, last = _written(first_s), _written(last_s)
    day = first[: len("2026-12-02 ")]
    return f"{first} to {last.removeprefix(day)} UTC"


def _written(unix_s: float) -> str:
    try:
        return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"unix time {unix_s:.0f}"

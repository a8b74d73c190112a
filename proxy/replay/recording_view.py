"""What a recording of the memory says about one replay: its part of the time, on its clock.

Understood is the file of `sluice record`, and nvidia-smi's CSV whose clock is set to UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.replay.result import BadResultError
from proxy.vllm.memory_curve.reader import read_memory_curve

if TYPE_CHECKING:
    from collections.abc import Iterable
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


def view_of(samples: Iterable[MemorySample], run: Run) -> RecordingView | None:
    """None when no sample falls into the time of the run."""
    view, found = RecordingView(), False
    for sample in samples:
        time_s = sample.at_s - run.started_unix_s
        if -_LEAD_S <= time_s <= run.elapsed_s + _LEAD_S:
            view.add(time_s, sample)
            found = True
    return view if found else None


def read_recording(path: Path, run: Run) -> RecordingView:
    """Raises BadResultError, a line that says what is wrong with the file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            view = view_of(read_memory_curve(lines), run)
    except OSError as error:
        raise BadResultError(f"{path}: {error.strerror or error}") from error
    if view is None:
        raise BadResultError(
            f"{path}: no sample of the time of the replay, {run.elapsed_s:.0f} s from "
            f"unix time {run.started_unix_s:.0f}"
        )
    return view

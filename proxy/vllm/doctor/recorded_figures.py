"""What `sluice record` wrote beside the memory: the engine's figures over time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.vllm.doctor.evidence import EvidenceLine

if TYPE_CHECKING:
    from proxy.vllm.memory_curve.reader import MemorySample

_PEAKS = ("engine.kv_cache_usage", "engine.running", "engine.waiting")
_TOTALS = ("engine.preemptions_total", "sluice.shed_total")


@dataclass(slots=True)
class RecordedFigures:
    """Peaks of gauges, and what counters gained; one that falls back began anew with the engine."""

    peaks: dict[str, float] = field(default_factory=dict)
    gained: dict[str, float] = field(default_factory=dict)
    lines: dict[str, tuple[int, str]] = field(default_factory=dict)
    restarts: int = 0  # times that the engine was up, then away, then up again
    went_away: int = 0
    _last: dict[str, float] = field(default_factory=dict)

    def add(self, sample: MemorySample) -> None:
        extra = sample.extra
        if not extra:
            return
        for name in _PEAKS:
            value = extra.get(name)
            if value is not None and value > self.peaks.get(name, -1.0):
                self.peaks[name] = value
                self.lines[name] = (sample.line, sample.text)
        for name in _TOTALS:
            self._count(name, extra.get(name), sample)
        self._watch(extra.get("engine.up"), sample)

    def evidence(self, file: str) -> list[EvidenceLine]:
        """The lines of what stands out: a full KV cache, preemptions, an engine that went away."""
        telling = {"engine.preemptions_total", "engine.up"}
        if self.peaks.get("engine.kv_cache_usage", 0.0) > 0.9:
            telling.add("engine.kv_cache_usage")
        return [EvidenceLine(file, *at) for name, at in self.lines.items() if name in telling]

    def _count(self, name: str, value: float | None, sample: MemorySample) -> None:
        if value is None:
            return
        last = self._last.get(name)
        self._last[name] = value
        gain = 0.0 if last is None else value - last if value >= last else value
        self.gained[name] = self.gained.get(name, 0.0) + gain
        if gain:
            self.lines[name] = (sample.line, sample.text)

    def _watch(self, up: float | None, sample: MemorySample) -> None:
        if up is None:
            return
        before = self._last.get("engine.up")
        self._last["engine.up"] = up
        if before and not up:
            self.went_away += 1
            self.lines["engine.up"] = (sample.line, sample.text)
        self.restarts += bool(up and before == 0 and self.went_away)

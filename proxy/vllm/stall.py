"""Is the engine stuck? What one metrics page after the other says. Pure rules.

A stuck engine answers /health with 200 and serves its page, and nothing on the page moves while it
says that requests run. No single figure will do. `iteration_tokens_total` counts only steps that
brought out a token, and stands still through a long prefill; but then the KV cache fills, chunk by
chunk. So whatever the engine itself moves counts as a sign of life.

Some versions of vLLM go on showing requests that run after all of them were given up (issues 22545
and 29928): that page looks like a stuck engine and is an idle one. So time counts only while we
have requests in there, and no verdict is for ever: after a minute the engine is tried again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.vllm.metrics_page import EngineMetrics

STALLED_AFTER_S = 10.0
TRIED_AGAIN_AFTER_S = 60.0
# A page that came late is one page: silence, theirs or ours, is no evidence.
_READINGS = 5
_LONGEST_GAP_S = 2.0

_Signs = tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """`frozen_s`: so long, in seconds, has the engine been seen not to move; `readings`: so many
    pages were the same as the one before."""

    stalled: bool = False
    frozen_s: float = 0.0
    readings: int = 0
    read_at: float = 0.0
    running: float = 0.0
    signs: _Signs | None = None

    @property
    def reason(self) -> str:
        """In words, while it is stalled."""
        requests = "1 request runs" if self.running == 1 else f"{self.running:.0f} requests run"
        return f"no step in {self.frozen_s:.0f} s while {requests}"


def judge_progress(
    before: Progress, metrics: EngineMetrics, now: float, holding: bool = True
) -> Progress:
    """What is known after this page, read at `now` seconds. `holding`: seats of ours are taken in
    the engine."""
    if metrics.iterations_total is None or not metrics.running:
        return Progress(read_at=now)
    signs = _signs(metrics)
    fresh = Progress(read_at=now, running=metrics.running, signs=signs)
    if signs != before.signs or not (holding or before.stalled):
        return fresh
    frozen_s = before.frozen_s + min(max(0.0, now - before.read_at), _LONGEST_GAP_S)
    readings = before.readings + 1
    if before.stalled and frozen_s >= STALLED_AFTER_S + TRIED_AGAIN_AFTER_S:
        return fresh
    stalled = before.stalled or (frozen_s >= STALLED_AFTER_S and readings >= _READINGS)
    return Progress(stalled, frozen_s, readings, now, metrics.running, signs)


def without_page(before: Progress, now: float) -> Progress:
    """What is known when the page cannot be read at `now`: the same, but no verdict is for ever."""
    if before.stalled and now - before.read_at >= TRIED_AGAIN_AFTER_S:
        return Progress(read_at=now)
    return before


def _signs(metrics: EngineMetrics) -> _Signs:
    return (
        metrics.iterations_total,
        metrics.running,
        metrics.waiting,
        metrics.kv_cache_usage,
        metrics.preemptions_total,
        metrics.prompt_tokens_total,
        metrics.generation_tokens_total,
    )

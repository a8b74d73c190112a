"""From two metrics pages, one after the other, to how full the engine is. Pure.

    tpot_s            = (S2 - S1) / (N2 - N1)     S, N: sum and count of the time per output token
    preemptions_per_s = (P2 - P1) / (t2 - t1)     P: preemptions since the engine's start

The gauges are those of the later page. A counter that fell says that the engine was restarted in
between: then there is no difference to take. When no step has come to an end in between, the gauges
are as old as the last one, and may tell of requests that are gone: then nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.admission.saturation import Saturation

if TYPE_CHECKING:
    from proxy.vllm.metrics_page import EngineMetrics

# The mean of a few tokens is chance, and the least of many such means is luck.
_FEWEST_TOKENS = 10
# Pages further apart say little about now.
_LONGEST_APART_S = 10.0


@dataclass(frozen=True, slots=True)
class Reading:
    """A page, and when it was read, in seconds."""

    metrics: EngineMetrics
    at: float


def saturation_between(before: Reading, after: Reading) -> Saturation:
    """Unknown throughout when nothing can be told."""
    elapsed_s = after.at - before.at
    if not 0 < elapsed_s <= _LONGEST_APART_S:
        return Saturation()
    old, new = before.metrics, after.metrics
    if _gained(old.iterations_total, new.iterations_total) == 0:
        return Saturation()
    preemptions = _gained(old.preemptions_total, new.preemptions_total)
    return Saturation(
        waiting=new.waiting,
        kv_cache_usage=new.kv_cache_usage,
        preemptions_per_s=None if preemptions is None else preemptions / elapsed_s,
        tpot_s=_tpot_s(old, new),
    )


def _tpot_s(old: EngineMetrics, new: EngineMetrics) -> float | None:
    tokens = _gained(old.tpot_count, new.tpot_count)
    seconds = _gained(old.tpot_sum_s, new.tpot_sum_s)
    if tokens is None or seconds is None or tokens < _FEWEST_TOKENS:
        return None
    return seconds / tokens


def _gained(old: float | None, new: float | None) -> float | None:
    """None when unknown, or when the count began anew."""
    if old is None or new is None or new < old:
        return None
    return new - old

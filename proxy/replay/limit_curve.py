"""What a tuning found at each limit: means over its trials, and the spread of their goodput."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from proxy.replay.result import ReplayResult


@dataclass(frozen=True, slots=True)
class LimitPoint:
    """`lowest_per_s` and `highest_per_s` are of single trials; times are in seconds, None where
    no trial had one; `shed_share` is of requests that were refused for good."""

    limit: int
    trials: int
    goodput_per_s: float
    lowest_per_s: float
    highest_per_s: float
    throughput_tokens_per_s: float
    ttft_p95_s: float | None
    tpot_p95_s: float | None
    e2e_p95_s: float | None
    shed_share: float
    attempts_per_request: float


def limit_curve(trials: Mapping[int, Sequence[ReplayResult]]) -> list[LimitPoint]:
    """By ascending limit."""
    return [_point(limit, trials[limit]) for limit in sorted(trials) if trials[limit]]


def _point(limit: int, results: Sequence[ReplayResult]) -> LimitPoint:
    goodput = [result.goodput_per_s for result in results]
    return LimitPoint(
        limit=limit,
        trials=len(results),
        goodput_per_s=fmean(goodput),
        lowest_per_s=min(goodput),
        highest_per_s=max(goodput),
        throughput_tokens_per_s=fmean(result.throughput_tokens_per_s for result in results),
        ttft_p95_s=_mean(result.ttft_s.p95 for result in results),
        tpot_p95_s=_mean(result.tpot_s.p95 for result in results),
        e2e_p95_s=_mean(result.e2e_s.p95 for result in results),
        shed_share=fmean(r.shed / r.offered if r.offered else 0.0 for r in results),
        attempts_per_request=fmean(result.amplification for result in results),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None

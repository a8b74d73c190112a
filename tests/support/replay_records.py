"""Records of a replay as tests need them: a few by hand, or thousands of a made-up queue."""

from __future__ import annotations

import random
from array import array
from dataclasses import replace

from proxy.replay.outcome import Fate, Load, RequestRecord, TryRecord
from proxy.replay.result import ReplayResult, Run
from proxy.replay.summary import summarize_replay

LOAD = Load(
    source="synthetic",
    source_hash="0" * 16,
    speed=1.0,
    rate_per_s=10.0,
    duration_s=10.0,
    timeout_s=30.0,
    max_retries=2,
)
RUN = Run(
    url="http://127.0.0.1:8080",
    started_unix_s=1_790_000_000.0,
    elapsed_s=12.0,
    versions={"sluice": "0.1.0", "python": "3.11.2"},
)


def completed(
    arrived_s: float, ttft_s: float = 0.5, tokens: int = 5, gap_s: float = 0.1
) -> RequestRecord:
    """One try, whose tokens came one by one."""
    first_s = arrived_s + ttft_s
    times = array("d", (first_s + gap_s * i for i in range(tokens)))
    one = TryRecord(arrived_s, 200, first_s, times[-1])
    return RequestRecord(
        arrived_s, 100, tokens, (one,), first_s, times[-1], tokens, times, Fate.COMPLETED
    )


def refused(arrived_s: float, code: str = "queue_full", tries: int = 1) -> RequestRecord:
    """Every try was refused within 10 ms, and the next one began a second later."""
    begins = [arrived_s + i for i in range(tries)]
    all_tries = tuple(TryRecord(b, 503, b + 0.01, b + 0.01, code, 1.0) for b in begins)
    ended_s = all_tries[-1].ended_s
    return RequestRecord(arrived_s, 100, 5, all_tries, None, ended_s, 0, None, Fate.SHED)


def abandoned(arrived_s: float, after_s: float = 30.0) -> RequestRecord:
    """One try, in which nothing came."""
    one = TryRecord(arrived_s, 0, None, arrived_s + after_s)
    return RequestRecord(arrived_s, 100, 5, (one,), None, one.ended_s, 0, None, Fate.ABANDONED)


def result_of(*records: RequestRecord, run: Run = RUN, **load: object) -> ReplayResult:
    return summarize_replay(records, replace(LOAD, **load), run)


def made_up_run(
    *,
    seed: int,
    arrivals_seed: int = 0,
    duration_s: float = 60.0,
    rate_per_s: float = 10.0,
    ttft_s: float = 0.5,
    gap_s: float = 0.02,
    served: float = 1.0,
    **load: object,
) -> ReplayResult:
    """Poisson arrivals, of which a share is served, with waits that are alike for five seconds."""
    arrivals, rng = random.Random(arrivals_seed), random.Random(seed)
    records, at_s = [], arrivals.expovariate(rate_per_s)
    hard: dict[int, float] = {}
    while at_s < duration_s:
        stretch = hard.setdefault(int(at_s / 5), arrivals.lognormvariate(0, 0.3))
        if rng.random() < served:
            wait_s = ttft_s * stretch * rng.lognormvariate(0, 0.2)
            records.append(completed(at_s, wait_s, 20, gap_s * rng.uniform(0.9, 1.1)))
        else:
            records.append(refused(at_s))
        at_s += arrivals.expovariate(rate_per_s)
    return result_of(*records, duration_s=duration_s, rate_per_s=rate_per_s, **load)

"""From what became of each request to the result of a replay."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING

from proxy.replay.outcome import Fate
from proxy.replay.percentiles import LogHistogram, percentiles
from proxy.replay.request_times import (
    Objective,
    e2e_s,
    gaps_s,
    is_good,
    last_token_s,
    tpot_s,
    ttft_s,
)
from proxy.replay.result import Gaps, ReplayResult, Requests, Run
from proxy.replay.series import is_shed, series_of, shed_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from proxy.replay.outcome import Load, RequestRecord

# A tenth of a millisecond is finer than a client's clock is true, and makes files a third smaller.
_DIGITS = 4
_NO_ANSWER = "no answer"


def summarize_replay(records: Iterable[RequestRecord], load: Load, run: Run) -> ReplayResult:
    """`records` in any order. Of a run that was broken off, rates are over the time it lasted."""
    ordered = sorted(records, key=lambda record: record.arrived_s)
    objective = objective_of(load)
    fates = Counter(record.fate for record in ordered)
    good = [is_good(record, objective) for record in ordered]
    completed = [record for record in ordered if record.fate is Fate.COMPLETED]
    attempts = sum(len(record.tries) for record in ordered)
    duration_s = _duration_s(load, run)
    lasted_s = max([duration_s, *(last_token_s(r) for r in ordered if r.output_tokens)])
    gaps = _gaps_by_second(completed)
    return ReplayResult(
        offered=len(ordered),
        completed=fates[Fate.COMPLETED],
        good=sum(good),
        failed=fates[Fate.FAILED],
        shed=fates[Fate.SHED],
        abandoned=fates[Fate.ABANDONED],
        attempts=attempts,
        amplification=attempts / len(ordered) if ordered else 0.0,
        duration_s=duration_s,
        lasted_s=lasted_s,
        goodput_per_s=sum(good) / duration_s,
        throughput_tokens_per_s=sum(r.output_tokens for r in ordered) / lasted_s,
        ttft_s=percentiles(_known(map(ttft_s, completed))),
        tpot_s=percentiles(_known(map(tpot_s, completed))),
        itl_s=_all_of(gaps).percentiles(),
        e2e_s=percentiles(map(e2e_s, completed)),
        generator_lag_s=percentiles(r.tries[0].began_s - r.arrived_s for r in ordered if r.tries),
        statuses=_statuses(ordered),
        refusals=_refusals(ordered),
        objective=objective,
        load={"hash": load.hash, **asdict(load)},
        run=run,
        series=series_of(ordered, objective),
        requests=_columns(ordered, good),
        gaps=_flat(gaps),
    )


def objective_of(load: Load) -> Objective:
    return Objective(ttft_s=load.slo_ttft_s, tpot_s=load.slo_tpot_s, e2e_s=load.slo_e2e_s)


def _duration_s(load: Load, run: Run) -> float:
    wanted_s = min(load.duration_s, run.elapsed_s) if run.partial else load.duration_s
    return max(wanted_s, 1e-3)


def _known(values: Iterable[float | None]) -> Iterable[float]:
    return (value for value in values if value is not None)


def _gaps_by_second(completed: Iterable[RequestRecord]) -> Mapping[int, LogHistogram]:
    gaps: defaultdict[int, LogHistogram] = defaultdict(LogHistogram)
    for record in completed:
        gaps[int(record.arrived_s)].add_all(list(gaps_s(record)))
    return gaps


def _all_of(gaps: Mapping[int, LogHistogram]) -> LogHistogram:
    together = LogHistogram()
    for histogram in gaps.values():
        together.merge(histogram)
    return together


def _flat(gaps: Mapping[int, LogHistogram]) -> Gaps:
    entries = [
        (second, bucket, count)
        for second, histogram in sorted(gaps.items())
        for bucket, count in sorted(histogram.counts.items())
    ]
    return Gaps(
        second=[second for second, _, _ in entries],
        bucket=[bucket for _, bucket, _ in entries],
        count=[count for _, _, count in entries],
    )


def _statuses(records: Iterable[RequestRecord]) -> dict[str, int]:
    """Of tries, by frequency."""
    found = Counter(str(t.status) if t.status else _NO_ANSWER for r in records for t in r.tries)
    return dict(found.most_common())


def _refusals(records: Iterable[RequestRecord]) -> dict[str, int]:
    """Of tries that were refused under load, by reason."""
    found = Counter(shed_reason(t) for r in records for t in r.tries if is_shed(t))
    return dict(found.most_common())


def _columns(ordered: Sequence[RequestRecord], good: list[bool]) -> Requests:
    return Requests(
        arrived_s=[round(record.arrived_s, _DIGITS) for record in ordered],
        prompt_tokens=[record.prompt_tokens for record in ordered],
        output_tokens=[record.output_tokens for record in ordered],
        tries=[len(record.tries) for record in ordered],
        fate=[str(record.fate) for record in ordered],
        good=good,
        ttft_s=[_rounded(ttft_s(record)) for record in ordered],
        tpot_s=[_rounded(tpot_s(record), _DIGITS + 2) for record in ordered],
        e2e_s=[round(e2e_s(record), _DIGITS) for record in ordered],
    )


def _rounded(value: float | None, digits: int = _DIGITS) -> float | None:
    return None if value is None else round(value, digits)

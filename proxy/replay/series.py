"""What happened in each second of a replay, from its records.

Counts belong to the second in which the thing happened; percentiles of a second are those of the
requests that arrived in it, which is what a client saw who came then. `concurrency` is the mean
number of tries under way in that second, `waiting` the mean of those without a first byte:

    a try that begins at b adds (1 - frac b) to second floor(b) and 1 to each later one,
    and takes away the same from the time at which it ended
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

from proxy.replay.outcome import Fate
from proxy.replay.percentiles import percentile
from proxy.replay.request_times import e2e_s, is_good, ttft_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.replay.outcome import RequestRecord, TryRecord
    from proxy.replay.request_times import Objective

_OVERLOAD_STATUSES = frozenset({429, 503, 529})
_MOST_REASONS = 8


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One value a second, from the start of the replay; all lists are of one length.

    `sheds` has a list for each reason; where a percentile is None, nothing that arrived in that
    second was answered.
    """

    offered: list[int]
    served: list[int]
    good: list[int]
    retries: list[int]
    sheds: dict[str, list[int]]
    concurrency: list[float]
    waiting: list[float]
    output_tokens: list[float]
    ttft_p50_s: list[float | None]
    ttft_p95_s: list[float | None]
    e2e_p50_s: list[float | None]
    e2e_p95_s: list[float | None]


def series_of(records: Sequence[RequestRecord], objective: Objective) -> Series:
    seconds = 1 + int(max((record.ended_s for record in records), default=0.0))
    completed = [record for record in records if record.fate is Fate.COMPLETED]
    tries = [one for record in records for one in record.tries]
    waits_s = _by_second(((r.arrived_s, ttft_s(r)) for r in completed), seconds)
    durations_s = _by_second(((r.arrived_s, e2e_s(r)) for r in completed), seconds)
    return Series(
        offered=_counts((record.arrived_s for record in records), seconds),
        served=_counts((record.ended_s for record in completed), seconds),
        good=_counts((r.ended_s for r in completed if is_good(r, objective)), seconds),
        retries=_counts((one.began_s for r in records for one in r.tries[1:]), seconds),
        sheds=_sheds(tries, seconds),
        concurrency=_levels(((t.began_s, t.ended_s) for t in tries), seconds),
        waiting=_levels(((t.began_s, _answered_s(t)) for t in tries), seconds),
        output_tokens=_tokens(records, seconds),
        ttft_p50_s=[percentile(values, 50) for values in waits_s],
        ttft_p95_s=[percentile(values, 95) for values in waits_s],
        e2e_p50_s=[percentile(values, 50) for values in durations_s],
        e2e_p95_s=[percentile(values, 95) for values in durations_s],
    )


def is_shed(one: TryRecord) -> bool:
    """Refused under load, by the gateway or by what is behind it."""
    return one.status in _OVERLOAD_STATUSES


def shed_reason(one: TryRecord) -> str:
    """The gateway's code, else the status."""
    return one.refusal_code or f"status {one.status}"


def _answered_s(one: TryRecord) -> float:
    return one.ended_s if one.first_byte_s is None else one.first_byte_s


def _counts(times_s: Iterable[float], seconds: int) -> list[int]:
    counts = [0] * seconds
    for time_s in times_s:
        counts[min(int(time_s), seconds - 1)] += 1
    return counts


def _sheds(tries: Iterable[TryRecord], seconds: int) -> dict[str, list[int]]:
    """The reasons come from outside: the frequent ones by name, the rest together."""
    ended_s: dict[str, list[float]] = {}
    for one in filter(is_shed, tries):
        ended_s.setdefault(shed_reason(one), []).append(one.ended_s)
    named = sorted(ended_s, key=lambda reason: (-len(ended_s[reason]), reason))
    sheds = {reason: _counts(ended_s[reason], seconds) for reason in named[:_MOST_REASONS]}
    if others := named[_MOST_REASONS:]:
        sheds["other"] = _counts((t for reason in others for t in ended_s[reason]), seconds)
    return sheds


def _levels(spans_s: Iterable[tuple[float, float]], seconds: int) -> list[float]:
    steps = [0.0] * (seconds + 2)
    for began_s, ended_s in spans_s:
        for time_s, sign in ((began_s, 1.0), (ended_s, -1.0)):
            second = min(int(time_s), seconds)
            into = min(time_s - second, 1.0)
            steps[second] += sign * (1 - into)
            steps[second + 1] += sign * into
    return [round(max(level, 0.0), 3) for level in accumulate(steps[:seconds])]


def _tokens(records: Iterable[RequestRecord], seconds: int) -> list[float]:
    """By the second in which they came; an answer without times of its own came at its end."""
    tokens = [0.0] * seconds
    for record in records:
        chunks = record.token_times
        if not chunks:
            tokens[min(int(record.ended_s), seconds - 1)] += record.output_tokens
            continue
        per_chunk, begin = record.output_tokens / len(chunks), 0
        for second in range(int(chunks[0]), int(chunks[-1]) + 1):
            end = bisect_left(chunks, second + 1, begin)
            tokens[min(second, seconds - 1)] += (end - begin) * per_chunk
            begin = end
    return [round(count, 2) for count in tokens]


def _by_second(values: Iterable[tuple[float, float | None]], seconds: int) -> list[list[float]]:
    """In ascending order within each second."""
    found: list[list[float]] = [[] for _ in range(seconds)]
    for arrived_s, value in values:
        if value is not None:
            found[min(int(arrived_s), seconds - 1)].append(value)
    return [sorted(each) for each in found]

"""A storm of one request over and over, for `sluice demo`: a Poisson load without a trace."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from proxy.replay.arrival import Arrival
from proxy.replay.client.open_loop import play
from proxy.replay.client.requester import Requester
from proxy.replay.client.tally import Tally
from proxy.replay.outcome import Fate
from proxy.replay.request_times import Objective, e2e_s, is_good
from proxy.replay.synthetic.arrival_process import GammaBursts
from proxy.upstream.address import UpstreamAddress
from proxy.upstream.pool import ConnectionPool
from proxy.upstream.port import UpstreamTimeouts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from proxy.replay.client.requester import Patience
    from proxy.replay.outcome import RequestRecord

_REFUSALS = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Storm:
    """`rate_per_s` requests arrive by a Poisson process for `duration_s` seconds."""

    path: str
    body: Mapping[str, object]
    rate_per_s: float
    duration_s: float
    patience: Patience


@dataclass(frozen=True, slots=True)
class StormSummary:
    """Counts of requests, not of tries. `good` were answered within the objective, `slo_s`, counted
    from their first try; `good_e2e_s` are the median and 99th percentile of their durations."""

    offered: int
    good: int
    late: int
    failed: int
    refused_tries: int
    tries_per_request: float
    good_per_s: float
    good_e2e_s: tuple[float, float] | None


async def run_storm(
    url: str, storm: Storm, seed: int, progress: Callable[[int], None]
) -> list[RequestRecord]:
    """What became of every request, once the last client has its answer or has given up.

    `progress` hears how many requests have ended.
    """
    address = UpstreamAddress.parse(url)
    patience_s = storm.patience.timeout_s
    pool = ConnectionPool(address, UpstreamTimeouts(patience_s, patience_s, patience_s))
    records: list[RequestRecord] = []
    began_s = time.monotonic()

    def clock() -> float:
        return time.monotonic() - began_s

    def keep(record: RequestRecord) -> None:
        records.append(record)
        progress(len(records))

    try:
        await play(
            _arrivals(storm, seed), _requester(pool, address, storm, seed, clock), clock, keep
        )
    finally:
        await pool.aclose()
    return records


def _arrivals(storm: Storm, seed: int) -> list[Arrival]:
    times_s = GammaBursts(storm.rate_per_s).times_s(storm.duration_s, random.Random(seed))
    return [Arrival(at_s, 0, 0) for at_s in times_s]


def _requester(
    pool: ConnectionPool,
    address: UpstreamAddress,
    storm: Storm,
    seed: int,
    clock: Callable[[], float],
) -> Requester:
    body = msgspec.json.encode(storm.body)
    return Requester(
        pool,
        address.target(storm.path.encode()),
        [(b"host", address.authority), (b"content-type", b"application/json")],
        lambda _arrival, _number: body,
        storm.patience,
        Tally(Objective()),
        random.Random(seed),
        clock,
        time.time,
    )


def summarize_storm(
    records: Sequence[RequestRecord], duration_s: float, slo_s: float
) -> StormSummary:
    """`duration_s` is how long requests arrived."""
    objective = Objective(e2e_s=slo_s)
    good_s = sorted(e2e_s(record) for record in records if is_good(record, objective))
    late = sum(record.fate is Fate.COMPLETED for record in records) - len(good_s)
    tries = [one for record in records for one in record.tries]
    return StormSummary(
        offered=len(records),
        good=len(good_s),
        late=late,
        failed=len(records) - len(good_s) - late,
        refused_tries=sum(one.status in _REFUSALS for one in tries),
        tries_per_request=len(tries) / len(records) if records else 0.0,
        good_per_s=len(good_s) / duration_s,
        good_e2e_s=_median_and_p99(good_s) if good_s else None,
    )


def _median_and_p99(ascending: Sequence[float]) -> tuple[float, float]:
    return statistics.median(ascending), ascending[int(len(ascending) * 0.99)]

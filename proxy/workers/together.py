"""Several workers' reports as those of one gateway.

What each has a part of is added up: seats, requests, counts. Of what all of them look at, the
engines, the one is shown that is to worry about; for readiness it is enough that one can serve.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from proxy.admission.snapshot import AdmissionSnapshot, TenantSnapshot, UpstreamSnapshot
from proxy.telemetry.engine_view import EngineView
from proxy.telemetry.instruments import DistributionSnapshot
from proxy.telemetry.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from proxy.edge.engine import EngineState
    from proxy.telemetry.sharing_view import SharingView
    from proxy.workers.report import WorkerReport

_MOST_REFUSALS = 50

Figure = TypeVar("Figure", bool, float)


def admission(reports: Sequence[WorkerReport], *, draining: bool) -> AdmissionSnapshot:
    """`draining`: the gateway as a whole is; a worker may be on its own."""
    seats: dict[str, list[UpstreamSnapshot]] = {}
    for report in reports:
        for one in report.admission.upstreams:
            seats.setdefault(one.name, []).append(one)
    return AdmissionSnapshot(
        upstreams=tuple(_seats(name, same) for name, same in seats.items()),
        queue_depth=sum(report.admission.queue_depth for report in reports),
        max_queue_depth=sum(report.admission.max_queue_depth for report in reports),
        draining=draining,
    )


def _seats(name: str, same: Sequence[UpstreamSnapshot]) -> UpstreamSnapshot:
    return UpstreamSnapshot(
        name,
        in_flight=sum(one.in_flight for one in same),
        limit=sum(one.limit for one in same),
        suspended=all(one.suspended for one in same),
        prefill_tokens=sum(one.prefill_tokens for one in same),
        kv_tokens=sum(one.kv_tokens for one in same),
    )


def totals(parts: Sequence[Totals]) -> Totals:
    """At least one part. All have counted with the same bounds."""
    reasons = dict.fromkeys(chain.from_iterable(part.shed_by_reason for part in parts))
    return Totals(
        arrivals=sum(part.arrivals for part in parts),
        retries=sum(part.retries for part in parts),
        ok=sum(part.ok for part in parts),
        shed_by_reason={
            reason: sum(part.shed_by_reason.get(reason, 0) for part in parts) for reason in reasons
        },
        waits=_waits([part.waits for part in parts]),
    )


def _waits(parts: Sequence[DistributionSnapshot]) -> DistributionSnapshot:
    bounds = [bound for bound, _ in parts[0].buckets]
    counts = (sum(column) for column in zip(*map(_counts, parts), strict=True))
    buckets = tuple(zip(bounds, counts, strict=True))
    return DistributionSnapshot(buckets, sum(part.total for part in parts))


def _counts(part: DistributionSnapshot) -> Iterator[int]:
    return (count for _, count in part.buckets)


def engines_at_best(reports: Iterable[WorkerReport]) -> dict[str, EngineState]:
    """An engine is ready if one of the workers can use it. One that drains takes nothing."""
    best: dict[str, EngineState] = {}
    for report in reports:
        if not report.admission.draining:
            for name, state in report.engines.items():
                if name not in best or (state.ready and not best[name].ready):
                    best[name] = state
    return best


def engines_at_worst(reports: Iterable[WorkerReport]) -> dict[str, EngineState]:
    """An engine is not ready if one of the workers cannot use it."""
    worst: dict[str, EngineState] = {}
    for report in reports:
        for name, state in report.engines.items():
            if name not in worst or (worst[name].ready and not state.ready):
                worst[name] = state
    return worst


def views(reports: Sequence[WorkerReport]) -> dict[str, EngineView]:
    names = dict.fromkeys(chain.from_iterable(report.views for report in reports))
    return {
        name: _view([report.views[name] for report in reports if name in report.views])
        for name in names
    }


def _view(same: Sequence[EngineView]) -> EngineView:
    ups = [view.up for view in same if view.up is not None]
    counts = [view.open_requests for view in same if view.open_requests is not None]
    return EngineView(
        up=all(ups) if ups else None,
        stalled=_most(view.stalled for view in same),
        running=_most(view.running for view in same),
        waiting=_most(view.waiting for view in same),
        kv_cache_usage=_most(view.kv_cache_usage for view in same),
        metrics_age_s=_most(view.metrics_age_s for view in same),
        taken_out=_most(view.taken_out for view in same),
        open_requests=sum(counts) if counts else None,
    )


def _most(figures: Iterable[Figure | None]) -> Figure | None:
    return max((figure for figure in figures if figure is not None), default=None)


def sharing(reports: Iterable[WorkerReport]) -> SharingView | None:
    """Of the worker that has most trouble with the store."""
    seen = [report.sharing for report in reports if report.sharing is not None]
    return min(seen, key=lambda one: (one.is_store_up, -(one.age_s or 0.0)), default=None)


def tenants(reports: Iterable[WorkerReport]) -> list[TenantSnapshot]:
    same: dict[str, TenantSnapshot] = {}
    for one in chain.from_iterable(report.tenants for report in reports):
        known = same.get(one.name, TenantSnapshot(one.name, 0, 0, one.weight))
        same[one.name] = TenantSnapshot(
            one.name,
            known.in_flight + one.in_flight,
            known.waiting + one.waiting,
            one.weight,
        )
    return list(same.values())


def refusals(reports: Iterable[WorkerReport]) -> list[dict[str, Any]]:
    """The newest first."""
    told = chain.from_iterable(report.refusals for report in reports)
    return sorted(told, key=lambda one: -float(one["at"]))[:_MOST_REFUSALS]

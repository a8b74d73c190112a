from __future__ import annotations

from proxy.admission.snapshot import AdmissionSnapshot, TenantSnapshot, UpstreamSnapshot
from proxy.telemetry.engine_view import EngineView
from proxy.telemetry.sharing_view import SharingView
from proxy.workers import together
from tests.support.worker_reports import DOWN, UP, URL, admission, report, totals


def test_seats_and_places_are_added_up() -> None:
    both = together.admission(
        [
            report(admission=admission(3, 4, queue_depth=1)),
            report(admission=admission(2, 8, queue_depth=2)),
        ],
        draining=False,
    )
    assert (both.in_flight, both.limit) == (5, 12)
    assert (both.queue_depth, both.max_queue_depth) == (3, 10)
    assert [one.name for one in both.upstreams] == [URL]


def test_whether_the_gateway_drains_is_not_for_one_worker_to_say() -> None:
    reports = [report(admission=admission(draining=True)), report()]
    assert not together.admission(reports, draining=False).draining
    assert together.admission(reports, draining=True).draining


def test_an_engine_that_one_worker_still_uses_is_not_suspended() -> None:
    def suspended(*values: bool) -> bool:
        reports = [
            report(
                admission=AdmissionSnapshot(
                    (UpstreamSnapshot(URL, 0, 1, suspended=value),), 0, 0, draining=False
                )
            )
            for value in values
        ]
        return together.admission(reports, draining=False).upstreams[0].suspended

    assert not suspended(True, False)
    assert suspended(True, True)


def test_counts_are_added_up_and_so_are_waits() -> None:
    both = together.totals(
        [totals(3, (0.25,), queue_full=2), totals(4, (0.75, 9.0), queue_full=1, draining=5)]
    )
    assert (both.arrivals, both.ok) == (7, 7)
    assert both.shed_by_reason == {"queue_full": 3, "draining": 5}
    counts = dict(both.waits.buckets)
    assert (counts["0.1"], counts["0.25"], counts["1.0"], counts["+Inf"]) == (0, 1, 2, 3)
    assert both.waits.total == 10.0


def test_it_is_enough_for_readiness_that_one_worker_can_use_the_engine() -> None:
    reports = [report(engines={URL: DOWN}), report(engines={URL: UP})]
    assert together.engines_at_best(reports) == {URL: UP}
    assert together.engines_at_worst(reports) == {URL: DOWN}
    assert together.engines_at_best(reversed(reports)) == {URL: UP}
    assert together.engines_at_worst(reversed(reports)) == {URL: DOWN}


def test_a_worker_that_drains_makes_nothing_ready() -> None:
    draining = report(admission=admission(draining=True))
    assert together.engines_at_best([draining]) == {}
    assert together.engines_at_worst([draining]) == {URL: UP}


def test_of_what_all_look_at_the_worst_is_shown_and_unknown_stays_unknown() -> None:
    one = EngineView(up=True, stalled=False, running=3, kv_cache_usage=0.5, taken_out=True)
    other = EngineView(up=False, stalled=True, running=2)
    both = together.views([report(views={URL: one}), report(views={URL: other})])
    assert both == {
        URL: EngineView(up=False, stalled=True, running=3, kv_cache_usage=0.5, taken_out=True)
    }
    assert together.views([report(views={URL: EngineView()})]) == {URL: EngineView()}
    open_there = [report(views={URL: EngineView(open_requests=n)}) for n in (2, 3)]
    assert together.views(open_there)[URL].open_requests == 5
    assert together.views([report(views={}), report(views={URL: one})]) == {URL: one}


def test_a_tenant_is_one_wherever_its_requests_are() -> None:
    reports = [
        report(tenants=(TenantSnapshot("gold", 2, 1, 4.0), TenantSnapshot("tin", 1, 0, 1.0))),
        report(tenants=(TenantSnapshot("gold", 3, 2, 4.0),)),
    ]
    assert together.tenants(reports) == [
        TenantSnapshot("gold", 5, 3, 4.0),
        TenantSnapshot("tin", 1, 0, 1.0),
    ]


def test_the_newest_refusals_come_first_whoever_refused() -> None:
    reports = [
        report(refusals=({"at": 3.0}, {"at": 1.0})),
        report(refusals=tuple({"at": 2.0 - number} for number in range(60))),
    ]
    shown = together.refusals(reports)
    assert [one["at"] for one in shown[:3]] == [3.0, 2.0, 1.0]
    assert len(shown) == 50


def test_of_the_store_the_worker_tells_that_reaches_it_least() -> None:
    well = SharingView(is_store_up=True, gateways=2, age_s=0.1)
    late = SharingView(is_store_up=True, gateways=2, age_s=2.0)
    refused = SharingView(gateways=2, age_s=1.0, trouble="no password")
    of_each = [report(sharing=one) for one in (well, late, refused)]
    assert together.sharing(of_each) == refused
    assert together.sharing(of_each[:2]) == late
    assert together.sharing([report(sharing=None)]) is None

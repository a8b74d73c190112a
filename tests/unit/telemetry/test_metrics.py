from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from proxy import __version__
from proxy.admission.account import Claim
from proxy.admission.outcome import Evicted, Load, Reason, RefusalFacts, Rejected
from proxy.admission.permit import Ending, Permit
from proxy.admission.request import AdmissionRequest
from proxy.admission.snapshot import AdmissionSnapshot, UpstreamSnapshot
from proxy.telemetry.engine_view import EngineView
from proxy.telemetry.metrics import Metrics
from proxy.telemetry.request_outcome import RequestOutcome
from proxy.telemetry.sharing_view import SharingView

UPSTREAM = "http://engine:8000"
REQUEST = AdmissionRequest(seats=1, deadline=0.0)


@dataclass
class Gateway:
    """A Metrics and what it reads from, both in a test's hands."""

    snapshot: AdmissionSnapshot = field(
        default_factory=lambda: AdmissionSnapshot(
            (UpstreamSnapshot(UPSTREAM, in_flight=3, limit=8, suspended=False),),
            queue_depth=5,
            max_queue_depth=9,
            draining=False,
        )
    )
    engines: dict[str, EngineView] = field(default_factory=dict)
    counts_tokens: bool = False
    estimate_error: float | None = None
    sharing: SharingView | None = None

    def __post_init__(self) -> None:
        self.metrics = Metrics(
            ("chat", "models"),
            lambda: self.snapshot,
            lambda: self.engines,
            lambda: "kv_tokens",
            (lambda: self.estimate_error) if self.counts_tokens else None,
            (lambda: self.sharing or SharingView()) if self.sharing else None,
        )

    def value(self, name: str, **labels: str) -> float | None:
        return self.samples().get((name, frozenset(labels.items())))

    def samples(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        text = self.metrics.page()[0].decode()
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def bounds(self, histogram: str) -> set[float]:
        wanted = f"{histogram}_bucket"
        return {float(dict(labels)["le"]) for name, labels in self.samples() if name == wanted}


def facts(reason: Reason, time_in_queue_s: float = 0.0) -> RefusalFacts:
    return RefusalFacts(
        reason=reason,
        seats=1,
        load=Load(in_flight=8, limit=8, queue_depth=9, max_queue_depth=9),
        time_in_queue_s=time_in_queue_s,
        expected_wait_s=1.0,
    )


def permit(time_in_queue_s: float) -> Permit:
    return Permit(
        REQUEST,
        Claim(UPSTREAM, 1),
        0.0,
        time_in_queue_s,
        lambda _permit, _ending: None,
        lambda _: None,
    )


def test_gauges_are_read_when_the_page_is_asked_for() -> None:
    gateway = Gateway()
    assert gateway.value("sluice_in_flight", upstream=UPSTREAM) == 3
    gateway.snapshot = AdmissionSnapshot(
        (UpstreamSnapshot(UPSTREAM, in_flight=7, limit=8, suspended=False),), 1, 9, draining=True
    )
    assert gateway.value("sluice_in_flight", upstream=UPSTREAM) == 7
    assert gateway.value("sluice_concurrency_limit", upstream=UPSTREAM) == 8
    assert gateway.value("sluice_queue_depth") == 1
    assert gateway.value("sluice_max_queue_depth") == 9
    assert gateway.value("sluice_draining") == 1
    assert gateway.value("sluice_binding_limit", which="kv_tokens") == 1


def test_what_is_unknown_about_an_engine_is_absent_never_zero() -> None:
    gateway = Gateway()
    gateway.engines[UPSTREAM] = EngineView(up=False)
    assert gateway.value("sluice_upstream_up", upstream=UPSTREAM) == 0
    for name in (
        "sluice_upstream_stalled",
        "sluice_upstream_taken_out",
        "sluice_upstream_metrics_age_seconds",
        "sluice_engine_running",
        "sluice_engine_waiting",
        "sluice_engine_kv_cache_usage",
    ):
        assert gateway.value(name, upstream=UPSTREAM) is None


def test_what_is_known_about_an_engine_is_exported_zero_included() -> None:
    gateway = Gateway()
    gateway.engines[UPSTREAM] = EngineView(
        up=True,
        stalled=False,
        running=0,
        waiting=4,
        kv_cache_usage=0.5,
        metrics_age_s=1.5,
        taken_out=True,
        open_requests=6,
    )
    assert gateway.value("sluice_open_requests", upstream=UPSTREAM) == 6
    assert gateway.value("sluice_upstream_up", upstream=UPSTREAM) == 1
    assert gateway.value("sluice_upstream_taken_out", upstream=UPSTREAM) == 1
    assert gateway.value("sluice_upstream_stalled", upstream=UPSTREAM) == 0
    assert gateway.value("sluice_engine_running", upstream=UPSTREAM) == 0
    assert gateway.value("sluice_engine_waiting", upstream=UPSTREAM) == 4
    assert gateway.value("sluice_engine_kv_cache_usage", upstream=UPSTREAM) == 0.5
    assert gateway.value("sluice_upstream_metrics_age_seconds", upstream=UPSTREAM) == 1.5


def test_arrivals_tell_first_attempts_from_retries() -> None:
    gateway = Gateway()
    chat, models = gateway.metrics.route("chat"), gateway.metrics.route("models")
    chat.arrived(attempt_is_retry=False)
    models.arrived(attempt_is_retry=False)
    chat.arrived(attempt_is_retry=True)
    assert gateway.value("sluice_arrivals_total", attempt="first") == 2
    assert gateway.value("sluice_arrivals_total", attempt="retry") == 1


@pytest.mark.parametrize("outcome", RequestOutcome)
def test_a_request_is_counted_once_under_its_outcome(outcome: RequestOutcome) -> None:
    gateway = Gateway()
    gateway.metrics.route("chat").finished(outcome, 0.3, None)
    counted = {
        other: gateway.value("sluice_requests_total", route="chat", outcome=other)
        for other in RequestOutcome
    }
    assert counted == {other: float(other is outcome) for other in RequestOutcome}


def test_a_route_is_on_the_page_with_zeros_from_its_first_arrival() -> None:
    gateway = Gateway()
    assert gateway.value("sluice_requests_total", route="chat", outcome="ok") is None
    gateway.metrics.route("chat").arrived(attempt_is_retry=False)
    assert gateway.value("sluice_requests_total", route="chat", outcome="ok") == 0
    assert gateway.value("sluice_request_duration_seconds_count", route="chat") == 0
    assert gateway.value("sluice_requests_total", route="models", outcome="ok") is None


def test_the_time_of_a_request_is_observed_to_its_last_byte() -> None:
    gateway = Gateway()
    gateway.metrics.route("chat").finished(RequestOutcome.OK, 40.0, 0.25)
    assert gateway.value("sluice_request_duration_seconds_sum", route="chat") == 40.0
    assert gateway.value("sluice_request_duration_seconds_bucket", route="chat", le="60.0") == 1
    assert gateway.value("sluice_request_duration_seconds_bucket", route="chat", le="30.0") == 0
    assert gateway.value("sluice_time_to_first_byte_seconds_sum", route="chat") == 0.25


@pytest.mark.parametrize("outcome", [RequestOutcome.SHED, RequestOutcome.REJECTED])
def test_refusals_do_not_make_a_drowning_service_look_fast(outcome: RequestOutcome) -> None:
    gateway = Gateway()
    gateway.metrics.route("chat").finished(outcome, 0.001, 0.001)
    assert gateway.value("sluice_request_duration_seconds_count", route="chat") == 0
    assert gateway.value("sluice_time_to_first_byte_seconds_count", route="chat") == 0


def test_a_request_without_a_first_byte_has_no_time_to_it() -> None:
    gateway = Gateway()
    gateway.metrics.route("chat").finished(RequestOutcome.ABANDONED, 12.0, None)
    assert gateway.value("sluice_request_duration_seconds_count", route="chat") == 1
    assert gateway.value("sluice_time_to_first_byte_seconds_count", route="chat") == 0


def test_every_shed_reason_is_on_the_page_before_it_happens() -> None:
    gateway = Gateway()
    for reason in Reason:
        assert gateway.value("sluice_shed_total", reason=reason) == 0
        assert gateway.value("sluice_shadow_shed_total", reason=reason) == 0


def test_a_rejection_is_a_shed_and_no_wait() -> None:
    gateway = Gateway()
    gateway.metrics.rejected(None, Rejected(facts(Reason.QUEUE_FULL)))
    assert gateway.value("sluice_shed_total", reason="queue_full") == 1
    assert gateway.value("sluice_queue_wait_seconds_count", outcome="timeout") == 0


@pytest.mark.parametrize("reason", [Reason.QUEUE_TIMEOUT, Reason.TENANT_LIMIT])
def test_a_wait_that_ran_out_is_a_shed_and_a_wait(reason: Reason) -> None:
    gateway = Gateway()
    eviction = Evicted(facts(reason, time_in_queue_s=5.0), timed_out=True)
    gateway.metrics.evicted(REQUEST, eviction)
    assert gateway.value("sluice_shed_total", reason=reason) == 1
    assert gateway.value("sluice_queue_wait_seconds_sum", outcome="timeout") == 5.0


@pytest.mark.parametrize(
    "reason", [Reason.DRAINING, Reason.UPSTREAM_UNAVAILABLE, Reason.TENANT_LIMIT]
)
def test_a_place_that_was_lost_before_its_time_says_nothing_about_waits(reason: Reason) -> None:
    gateway = Gateway()
    gateway.metrics.evicted(REQUEST, Evicted(facts(reason, time_in_queue_s=2.0)))
    assert gateway.value("sluice_shed_total", reason=reason) == 1
    for outcome in ("admitted", "timeout", "abandoned"):
        assert gateway.value("sluice_queue_wait_seconds_count", outcome=outcome) == 0


def test_waits_are_told_apart_by_how_they_ended() -> None:
    gateway = Gateway()
    gateway.metrics.admitted(REQUEST, permit(time_in_queue_s=0.5))
    gateway.metrics.abandoned(REQUEST, 2.0)
    assert gateway.value("sluice_queue_wait_seconds_sum", outcome="admitted") == 0.5
    assert gateway.value("sluice_queue_wait_seconds_sum", outcome="abandoned") == 2.0


def test_shadow_mode_counts_apart_from_real_sheds() -> None:
    gateway = Gateway()
    gateway.metrics.would_shed(Reason.QUEUE_FULL)
    assert gateway.value("sluice_shadow_shed_total", reason="queue_full") == 1
    assert gateway.value("sluice_shed_total", reason="queue_full") == 0


def test_a_shed_outside_the_controller_counts_like_any_other() -> None:
    gateway = Gateway()
    gateway.metrics.shed(Reason.QUEUE_FULL)
    assert gateway.value("sluice_shed_total", reason="queue_full") == 1


def test_the_end_of_a_permit_changes_no_counter() -> None:
    gateway = Gateway()
    before = sluice_samples(gateway)
    gateway.metrics.released(permit(0.0), Ending.COMPLETE)
    assert sluice_samples(gateway) == before


@pytest.mark.parametrize(
    "histogram",
    [
        "sluice_queue_wait_seconds",
        "sluice_request_duration_seconds",
        "sluice_time_to_first_byte_seconds",
    ],
)
def test_buckets_reach_from_a_millisecond_to_ten_minutes(histogram: str) -> None:
    gateway = Gateway()
    gateway.metrics.route("chat").arrived(attempt_is_retry=False)
    bounds = gateway.bounds(histogram)
    finite = bounds - {math.inf}
    assert (min(finite), max(finite), max(bounds)) == (0.001, 600.0, math.inf)
    assert 0.01 in finite


def test_only_declared_routes_can_be_labels() -> None:
    with pytest.raises(KeyError):
        Gateway().metrics.route("/v1/../sleep")


def test_two_gateways_share_nothing() -> None:
    one, other = Gateway(), Gateway()
    one.metrics.shed(Reason.DRAINING)
    assert other.value("sluice_shed_total", reason="draining") == 0


def test_the_page_carries_the_version() -> None:
    builds = [labels for name, labels in Gateway().samples() if name == "sluice_build_info"]
    assert [dict(labels)["version"] for labels in builds] == [__version__]


def test_the_page_says_what_the_process_itself_uses() -> None:
    assert (Gateway().value("process_resident_memory_bytes") or 0) > 0


def test_the_page_is_openmetrics_for_those_who_ask() -> None:
    gateway = Gateway()
    gateway.metrics.route("chat").finished(RequestOutcome.OK, 0.3, 0.1)
    page, content_type = gateway.metrics.page("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    families = list(openmetrics.text_string_to_metric_families(page.decode()))
    assert "sluice_requests" in {family.name for family in families}


def test_the_page_is_plain_text_for_everybody_else() -> None:
    page, content_type = Gateway().metrics.page("*/*")
    assert content_type.startswith("text/plain")
    assert not page.rstrip().endswith(b"# EOF")


def sluice_samples(gateway: Gateway) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {key: value for key, value in gateway.samples().items() if key[0].startswith("sluice_")}


def test_tokens_are_shown_where_they_are_counted() -> None:
    upstreams = tuple(
        UpstreamSnapshot(name, 1, 8, suspended=False, prefill_tokens=30, kv_tokens=400)
        for name in ("a", "b")
    )
    gateway = Gateway(
        AdmissionSnapshot(upstreams, 0, 9, draining=False), counts_tokens=True, estimate_error=0.25
    )
    assert gateway.value("sluice_tokens_in_flight", kind="prefill") == 60
    assert gateway.value("sluice_tokens_in_flight", kind="kv") == 800
    assert gateway.value("sluice_token_estimate_error_ratio") == 0.25
    assert Gateway(counts_tokens=True).value("sluice_token_estimate_error_ratio") is None
    assert Gateway().value("sluice_tokens_in_flight", kind="kv") is None


SHARING = ("sluice_store_up", "sluice_gateways", "sluice_store_age_seconds", "sluice_leased_seats")


def test_of_other_gateways_nothing_is_said_unless_the_limit_is_shared() -> None:
    page, _ = Gateway().metrics.page()
    assert not any(name in page.decode() for name in SHARING)


def test_what_is_known_of_other_gateways_is_shown() -> None:
    gateway = Gateway(
        sharing=SharingView(is_store_up=True, gateways=3, age_s=0.2, leases={UPSTREAM: 8})
    )
    assert gateway.value("sluice_store_up") == 1
    assert gateway.value("sluice_gateways") == 3
    assert gateway.value("sluice_store_age_seconds") == 0.2
    assert gateway.value("sluice_leased_seats", upstream=UPSTREAM) == 8


def test_a_store_that_was_never_heard_has_no_age() -> None:
    gateway = Gateway(sharing=SharingView(leases={UPSTREAM: 0}))
    assert gateway.value("sluice_store_up") == 0
    assert gateway.value("sluice_store_age_seconds") is None


def exemplars(gateway: Gateway, accept: str = "application/openmetrics-text") -> list[object]:
    """What stands behind the buckets of the histogram of durations."""
    page, content_type = gateway.metrics.page(accept)
    assert accept in content_type
    found = {one.name: one for one in openmetrics.text_string_to_metric_families(page.decode())}
    samples = found["sluice_request_duration_seconds"].samples
    return [(one.exemplar.labels, one.exemplar.value) for one in samples if one.exemplar]


def test_each_bucket_of_a_time_names_the_last_request_in_it() -> None:
    gateway = Gateway()
    for duration_s, of in ((0.3, b"first"), (0.4, b"last"), (7.0, "a" * 32)):
        gateway.metrics.route("chat").finished(RequestOutcome.OK, duration_s, 0.1, of)
    assert exemplars(gateway) == [
        ({"request_id": "last"}, 0.4),
        ({"trace_id": "a" * 32}, 7.0),
    ]


@pytest.mark.parametrize("of", [b"", b"x" * 119, b'a"b', b"a\\b"])
def test_an_id_that_not_everybody_could_read_is_left_out(of: bytes) -> None:
    gateway = Gateway()
    gateway.metrics.route("chat").finished(RequestOutcome.OK, 0.3, 0.1, of)
    assert exemplars(gateway) == []


def test_whoever_asks_for_the_plain_page_gets_no_exemplars() -> None:
    gateway = Gateway()
    gateway.metrics.route("chat").finished(RequestOutcome.OK, 0.3, 0.1, b"some-id")
    page, _ = gateway.metrics.page("text/plain")
    assert b"some-id" not in page

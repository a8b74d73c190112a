"""Every metric that Sluice exports, declared here and nowhere else.

The request path writes to pre-bound instruments; gauges are read when a page is asked for. One
`Metrics` belongs to one gateway: nothing here is shared between instances. Labels come from closed
sets, never from what a client sends.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder

from proxy import __version__
from proxy.admission.outcome import Reason
from proxy.telemetry.instruments import Distribution, Tally
from proxy.telemetry.request_outcome import RequestOutcome
from proxy.telemetry.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from proxy.admission.outcome import Evicted, Rejected
    from proxy.admission.permit import Ending, Permit
    from proxy.admission.request import AdmissionRequest
    from proxy.admission.snapshot import AdmissionSnapshot, UpstreamSnapshot
    from proxy.telemetry.engine_view import EngineView
    from proxy.telemetry.sharing_view import SharingView

Sample = tuple[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Declaration:
    """Name, labels and help text of a metric; which tuple below it stands in says its type."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


# 1 ms to 600 s, as prometheus_client's own end at 10 s and a generation does not.
DURATION_BOUNDS_S = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)

REQUESTS = Declaration(
    "sluice_requests_total", "Requests that ended, by how.", ("route", "outcome")
)
ARRIVALS = Declaration(
    "sluice_arrivals_total",
    "Requests that came in: first attempts, and retries of a client's SDK.",
    ("attempt",),
)
SHEDS = Declaration("sluice_shed_total", "Requests refused under load, by reason.", ("reason",))
SHADOW_SHEDS = Declaration(
    "sluice_shadow_shed_total",
    "Requests admitted in shadow mode that would have been refused, by reason.",
    ("reason",),
)
QUEUE_WAIT = Declaration(
    "sluice_queue_wait_seconds",
    "Time from asking for a seat to getting it, giving up, or leaving.",
    ("outcome",),
)
DURATION = Declaration(
    "sluice_request_duration_seconds",
    "Time from arrival to the last byte, of requests that were not refused.",
    ("route",),
)
FIRST_BYTE = Declaration(
    "sluice_time_to_first_byte_seconds",
    "Time from arrival to the first byte of the engine's answer.",
    ("route",),
)
IN_FLIGHT = Declaration("sluice_in_flight", "Seats taken.", ("upstream",))
LIMIT = Declaration("sluice_concurrency_limit", "Seats there are.", ("upstream",))
QUEUE_DEPTH = Declaration("sluice_queue_depth", "Requests waiting for a seat.")
MAX_QUEUE_DEPTH = Declaration("sluice_max_queue_depth", "Requests that may wait for a seat.")
DRAINING = Declaration("sluice_draining", "1 while shutting down.")
BINDING_LIMIT = Declaration("sluice_binding_limit", "1 for the limit that binds first.", ("which",))
BUILD_INFO = Declaration("sluice_build_info", "Always 1.", ("version", "python"))
TOKENS_IN_FLIGHT = Declaration(
    "sluice_tokens_in_flight",
    "Estimated tokens: of prompts before their first byte, and of all requests in flight.",
    ("kind",),
)
TOKEN_ESTIMATE_ERROR = Declaration(
    "sluice_token_estimate_error_ratio",
    "How far the estimates of prompt tokens were off lately, on average: 0.1 is a tenth.",
)
UP = Declaration("sluice_upstream_up", "1 if the engine answers its health check.", ("upstream",))
STALLED = Declaration(
    "sluice_upstream_stalled", "1 if the engine holds work and makes no progress.", ("upstream",)
)
TAKEN_OUT = Declaration(
    "sluice_upstream_taken_out",
    "1 while the engine gets nothing, or one request to try it, because requests failed there.",
    ("upstream",),
)
METRICS_AGE = Declaration(
    "sluice_upstream_metrics_age_seconds",
    "Age of the engine's figures below.",
    ("upstream",),
)
ENGINE_RUNNING = Declaration(
    "sluice_engine_running", "Requests running in the engine, as it says.", ("upstream",)
)
ENGINE_WAITING = Declaration(
    "sluice_engine_waiting", "Requests queued inside the engine, as it says.", ("upstream",)
)
ENGINE_KV_CACHE_USAGE = Declaration(
    "sluice_engine_kv_cache_usage", "Share of the KV cache in use, 0 to 1.", ("upstream",)
)
STORE_UP = Declaration("sluice_store_up", "1 if the store of the shared limit answers.")
STORE_AGE = Declaration("sluice_store_age_seconds", "Time since the store last answered.")
GATEWAYS = Declaration("sluice_gateways", "Gateways that share the limit, this one included.")
LEASED = Declaration("sluice_leased_seats", "Seats that this gateway holds.", ("upstream",))

_WAIT_OUTCOMES = ("admitted", "timeout", "abandoned")
_ATTEMPTS = ("first", "retry")


class RouteMetrics:
    """What one route counts. Its series appear on the page with its first request."""

    __slots__ = ("_arrivals", "_by_outcome", "_has_arrivals", "duration", "first_byte")

    def __init__(self, arrivals: tuple[Tally, Tally]) -> None:
        self._arrivals = arrivals
        self._has_arrivals = False
        self._by_outcome = {outcome: Tally() for outcome in RequestOutcome}
        self.duration = Distribution(DURATION_BOUNDS_S)
        self.first_byte = Distribution(DURATION_BOUNDS_S)

    def arrived(self, attempt_is_retry: bool) -> None:
        self._arrivals[attempt_is_retry].count += 1
        self._has_arrivals = True

    def finished(self, outcome: RequestOutcome, duration_s: float, ttfb_s: float | None) -> None:
        """Once a request, when its last byte has gone or nothing more will go.

        `ttfb_s` is None when no byte of an engine's answer was sent. The time of a refusal is not
        observed: a flood of them, a millisecond each, would make a drowning service look fast.
        """
        self._by_outcome[outcome].count += 1
        if outcome is not RequestOutcome.SHED and outcome is not RequestOutcome.REJECTED:
            self.duration.observe(duration_s)
            if ttfb_s is not None:
                self.first_byte.observe(ttfb_s)

    def counts(self) -> Mapping[RequestOutcome, int]:
        """How many requests ended in each way; empty before the first request."""
        counts = {outcome: tally.count for outcome, tally in self._by_outcome.items()}
        return counts if self._has_arrivals or any(counts.values()) else {}


class Metrics:
    """An AdmissionObserver that Prometheus can scrape."""

    def __init__(
        self,
        routes: Iterable[str],
        admission: Callable[[], AdmissionSnapshot],
        engines: Callable[[], Mapping[str, EngineView]],
        binding_limit: Callable[[], str | None],
        token_estimate_error: Callable[[], float | None] | None = None,
        sharing: Callable[[], SharingView] | None = None,
    ) -> None:
        """`routes` is the closed set of route names; the others are asked at every scrape and must
        answer at once: `engines` by upstream name, `binding_limit` its name, if any. Without a
        `token_estimate_error` no tokens are counted, and none shown; nor are other gateways without
        `sharing`."""
        self._sharing = sharing
        self._admission = admission
        self._engines = engines
        self._binding_limit = binding_limit
        self._token_estimate_error = token_estimate_error
        self._arrivals = (Tally(), Tally())
        self._routes = {name: RouteMetrics(self._arrivals) for name in routes}
        self._sheds = {reason: Tally() for reason in Reason}
        self._shadow_sheds = {reason: Tally() for reason in Reason}
        self._waits = {outcome: Distribution(DURATION_BOUNDS_S) for outcome in _WAIT_OUTCOMES}
        self._admitted, self._timed_out, self._abandoned = self._waits.values()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def route(self, name: str) -> RouteMetrics:
        """The instruments of one of the routes. Raises KeyError for any other name."""
        return self._routes[name]

    def shed(self, reason: Reason) -> None:
        """A refusal under load that the admission controller did not make."""
        self._sheds[reason].count += 1

    # AdmissionObserver

    def admitted(self, request: AdmissionRequest, permit: Permit) -> None:  # noqa: ARG002 - the port
        self._admitted.observe(permit.time_in_queue_s)

    def rejected(self, request: AdmissionRequest | None, rejection: Rejected) -> None:  # noqa: ARG002 - the port
        self._sheds[rejection.reason].count += 1

    def evicted(self, request: AdmissionRequest, eviction: Evicted) -> None:  # noqa: ARG002 - the port
        """Only a wait that ran out is observed as one: a queue that was cleared by a drain or a
        dead engine, or a place given up to another, says nothing about how long requests wait."""
        self._sheds[eviction.reason].count += 1
        if eviction.timed_out:
            self._timed_out.observe(eviction.facts.time_in_queue_s)

    def abandoned(self, request: AdmissionRequest, time_in_queue_s: float) -> None:  # noqa: ARG002 - the port
        self._abandoned.observe(time_in_queue_s)

    def released(self, permit: Permit, ending: Ending) -> None:
        """Nothing to count: seats are read from the snapshot."""

    def would_shed(self, reason: Reason) -> None:
        self._shadow_sheds[reason].count += 1

    def totals(self) -> Totals:
        first, retries = (tally.count for tally in self._arrivals)
        counts = [route.counts() for route in self._routes.values()]
        return Totals(
            arrivals=first + retries,
            retries=retries,
            ok=sum(by_outcome.get(RequestOutcome.OK, 0) for by_outcome in counts),
            shed_by_reason={reason.value: tally.count for reason, tally in self._sheds.items()},
            waits=self._admitted.snapshot(),
        )

    # The page

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """The metrics page and its content type: OpenMetrics if `accept` asks for it."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def collect(self) -> Iterator[Metric]:
        """Called by the registry for each page."""
        yield from self._collect_requests()
        yield from self._collect_admission()
        yield from self._collect_engines()
        if self._sharing is not None:
            yield from _collect_sharing(self._sharing())
        version, python = __version__, platform.python_version()
        yield _gauge(BUILD_INFO, [((version, python), 1)])

    def _collect_requests(self) -> Iterator[Metric]:
        counts = {name: route.counts() for name, route in self._routes.items()}
        seen = [name for name, by_outcome in counts.items() if by_outcome]
        yield _counter(
            REQUESTS,
            (((name, outcome), n) for name in seen for outcome, n in counts[name].items()),
        )
        yield _counter(ARRIVALS, _tallied(zip(_ATTEMPTS, self._arrivals, strict=True)))
        yield _counter(SHEDS, _tallied(self._sheds.items()))
        yield _counter(SHADOW_SHEDS, _tallied(self._shadow_sheds.items()))
        yield _histogram(QUEUE_WAIT, self._waits.items())
        yield _histogram(DURATION, ((name, self._routes[name].duration) for name in seen))
        yield _histogram(FIRST_BYTE, ((name, self._routes[name].first_byte) for name in seen))

    def _collect_admission(self) -> Iterator[Metric]:
        now = self._admission()
        yield _gauge(IN_FLIGHT, _by_upstream(now.upstreams, lambda one: one.in_flight))
        yield _gauge(LIMIT, _by_upstream(now.upstreams, lambda one: one.limit))
        yield _gauge(QUEUE_DEPTH, [((), now.queue_depth)])
        yield _gauge(MAX_QUEUE_DEPTH, [((), now.max_queue_depth)])
        yield _gauge(DRAINING, [((), now.draining)])
        binding = self._binding_limit()
        yield _gauge(BINDING_LIMIT, [] if binding is None else [((binding,), 1)])
        if self._token_estimate_error is not None:
            yield from self._collect_tokens(now, self._token_estimate_error())

    def _collect_tokens(self, now: AdmissionSnapshot, error: float | None) -> Iterator[Metric]:
        prefill = sum(upstream.prefill_tokens for upstream in now.upstreams)
        kv = sum(upstream.kv_tokens for upstream in now.upstreams)
        yield _gauge(TOKENS_IN_FLIGHT, [(("prefill",), prefill), (("kv",), kv)])
        yield _gauge(TOKEN_ESTIMATE_ERROR, [] if error is None else [((), error)])

    def _collect_engines(self) -> Iterator[Metric]:
        engines = self._engines()
        yield _gauge(UP, _known(engines, lambda engine: engine.up))
        yield _gauge(STALLED, _known(engines, lambda engine: engine.stalled))
        yield _gauge(TAKEN_OUT, _known(engines, lambda engine: engine.taken_out))
        yield _gauge(METRICS_AGE, _known(engines, lambda engine: engine.metrics_age_s))
        yield _gauge(ENGINE_RUNNING, _known(engines, lambda engine: engine.running))
        yield _gauge(ENGINE_WAITING, _known(engines, lambda engine: engine.waiting))
        yield _gauge(ENGINE_KV_CACHE_USAGE, _known(engines, lambda engine: engine.kv_cache_usage))


def _collect_sharing(seen: SharingView) -> Iterator[Metric]:
    yield _gauge(STORE_UP, [((), seen.is_store_up)])
    yield _gauge(STORE_AGE, [] if seen.age_s is None else [((), seen.age_s)])
    yield _gauge(GATEWAYS, [((), seen.gateways)])
    yield _gauge(LEASED, (((name,), seats) for name, seats in seen.leases.items()))


def _counter(declared: Declaration, samples: Iterable[Sample]) -> Metric:
    family = CounterMetricFamily(declared.name, declared.help, labels=declared.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _gauge(declared: Declaration, samples: Iterable[Sample]) -> Metric:
    family = GaugeMetricFamily(declared.name, declared.help, labels=declared.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _histogram(declared: Declaration, distributions: Iterable[tuple[str, Distribution]]) -> Metric:
    family = HistogramMetricFamily(declared.name, declared.help, labels=declared.labels)
    for label, distribution in distributions:
        seen = distribution.snapshot()
        family.add_metric([label], seen.buckets, seen.total)
    return family


def _tallied(tallies: Iterable[tuple[str, Tally]]) -> Iterator[Sample]:
    return (((label,), tally.count) for label, tally in tallies)


def _by_upstream(
    upstreams: Iterable[UpstreamSnapshot], read: Callable[[UpstreamSnapshot], int]
) -> Iterator[Sample]:
    return (((upstream.name,), read(upstream)) for upstream in upstreams)


def _known(
    engines: Mapping[str, EngineView], read: Callable[[EngineView], float | None]
) -> Iterator[Sample]:
    readings = ((name, read(engine)) for name, engine in engines.items())
    return (((name,), value) for name, value in readings if value is not None)

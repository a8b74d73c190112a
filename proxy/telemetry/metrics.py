"""Counts what happens, and shows it to Prometheus. declarations.py says which metrics there are.

The request path writes to pre-bound instruments; gauges are read when a page is asked for. One
`Metrics` belongs to one gateway: nothing here is shared between instances. Labels come from closed
sets, never from what a client sends.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.samples import Exemplar

from proxy import __version__
from proxy.admission.outcome import Reason
from proxy.telemetry import declarations as d
from proxy.telemetry.families import families
from proxy.telemetry.instruments import Distribution, Tally
from proxy.telemetry.page_format import written
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
    from proxy.telemetry.families import Family
    from proxy.telemetry.instruments import Example
    from proxy.telemetry.sharing_view import SharingView

Sample = tuple[tuple[str, ...], float]


_LONGEST_EXAMPLE = 128 - len("request_id")
_WAIT_OUTCOMES = ("admitted", "timeout", "abandoned")
_ATTEMPTS = ("first", "retry")
_BOUNDS = ("per_address", "total")


class RouteMetrics:
    """What one route counts. Its series appear on the page with its first request."""

    __slots__ = ("_arrivals", "_by_outcome", "_has_arrivals", "duration", "first_byte")

    def __init__(self, arrivals: tuple[Tally, Tally]) -> None:
        self._arrivals = arrivals
        self._has_arrivals = False
        self._by_outcome = {outcome: Tally() for outcome in RequestOutcome}
        self.duration = Distribution(d.DURATION_BOUNDS_S)
        self.first_byte = Distribution(d.DURATION_BOUNDS_S)

    def arrived(self, attempt_is_retry: bool) -> None:
        self._arrivals[attempt_is_retry].count += 1
        self._has_arrivals = True

    def finished(
        self,
        outcome: RequestOutcome,
        duration_s: float,
        ttfb_s: float | None,
        of: bytes | str = b"",
    ) -> None:
        """Once a request, when its last byte has gone or nothing more will go.

        `ttfb_s` is None when no byte of an engine's answer was sent; `of` is the request's id, or
        as a str that of its trace. The time of a refusal is not observed: a flood of them, a
        millisecond each, would make a drowning service look fast.
        """
        self._by_outcome[outcome].count += 1
        if outcome is not RequestOutcome.SHED and outcome is not RequestOutcome.REJECTED:
            self.duration.observe(duration_s, of)
            if ttfb_s is not None:
                self.first_byte.observe(ttfb_s, of)

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
        self._connections_refused = {bound: Tally() for bound in _BOUNDS}
        self._waits = {outcome: Distribution(d.DURATION_BOUNDS_S) for outcome in _WAIT_OUTCOMES}
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

    def connection_refused(self, bound: str) -> None:
        """One that was over a bound on connections. Raises KeyError for one that there is not."""
        self._connections_refused[bound].count += 1

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
        return written(self._registry, accept)

    def families(self) -> tuple[Family, ...]:
        """What the page says, to be put together with other workers' pages."""
        return families(self._registry.collect())

    def collect(self) -> Iterator[Metric]:
        """Called by the registry for each page."""
        yield from self._collect_requests()
        yield from self._collect_admission()
        yield from self._collect_engines()
        if self._sharing is not None:
            yield from _collect_sharing(self._sharing())
        version, python = __version__, platform.python_version()
        yield _gauge(d.BUILD_INFO, [((version, python), 1)])

    def _collect_requests(self) -> Iterator[Metric]:
        counts = {name: route.counts() for name, route in self._routes.items()}
        seen = [name for name, by_outcome in counts.items() if by_outcome]
        yield _counter(
            d.REQUESTS,
            (((name, outcome), n) for name in seen for outcome, n in counts[name].items()),
        )
        yield _counter(d.ARRIVALS, _tallied(zip(_ATTEMPTS, self._arrivals, strict=True)))
        yield _counter(d.SHEDS, _tallied(self._sheds.items()))
        yield _counter(d.SHADOW_SHEDS, _tallied(self._shadow_sheds.items()))
        yield _counter(d.CONNECTIONS_REFUSED, _tallied(self._connections_refused.items()))
        yield _histogram(d.QUEUE_WAIT, self._waits.items())
        yield _histogram(d.DURATION, ((name, self._routes[name].duration) for name in seen))
        yield _histogram(d.FIRST_BYTE, ((name, self._routes[name].first_byte) for name in seen))

    def _collect_admission(self) -> Iterator[Metric]:
        now = self._admission()
        yield _gauge(d.IN_FLIGHT, _by_upstream(now.upstreams, lambda one: one.in_flight))
        yield _gauge(d.LIMIT, _by_upstream(now.upstreams, lambda one: one.limit))
        yield _gauge(d.QUEUE_DEPTH, [((), now.queue_depth)])
        yield _gauge(d.MAX_QUEUE_DEPTH, [((), now.max_queue_depth)])
        yield _gauge(d.DRAINING, [((), now.draining)])
        binding = self._binding_limit()
        yield _gauge(d.BINDING_LIMIT, [] if binding is None else [((binding,), 1)])
        if self._token_estimate_error is not None:
            yield from self._collect_tokens(now, self._token_estimate_error())

    def _collect_tokens(self, now: AdmissionSnapshot, error: float | None) -> Iterator[Metric]:
        prefill = sum(upstream.prefill_tokens for upstream in now.upstreams)
        kv = sum(upstream.kv_tokens for upstream in now.upstreams)
        yield _gauge(d.TOKENS_IN_FLIGHT, [(("prefill",), prefill), (("kv",), kv)])
        yield _gauge(d.TOKEN_ESTIMATE_ERROR, [] if error is None else [((), error)])

    def _collect_engines(self) -> Iterator[Metric]:
        engines = self._engines()
        yield _gauge(d.OPEN_REQUESTS, _known(engines, lambda engine: engine.open_requests))
        yield _gauge(d.UP, _known(engines, lambda engine: engine.up))
        yield _gauge(d.STALLED, _known(engines, lambda engine: engine.stalled))
        yield _gauge(d.TAKEN_OUT, _known(engines, lambda engine: engine.taken_out))
        yield _gauge(d.METRICS_AGE, _known(engines, lambda engine: engine.metrics_age_s))
        yield _gauge(d.ENGINE_RUNNING, _known(engines, lambda engine: engine.running))
        yield _gauge(d.ENGINE_WAITING, _known(engines, lambda engine: engine.waiting))
        yield _gauge(d.ENGINE_KV_CACHE_USAGE, _known(engines, lambda engine: engine.kv_cache_usage))


def _collect_sharing(seen: SharingView) -> Iterator[Metric]:
    yield _gauge(d.STORE_UP, [((), seen.is_store_up)])
    yield _gauge(d.STORE_AGE, [] if seen.age_s is None else [((), seen.age_s)])
    yield _gauge(d.GATEWAYS, [((), seen.gateways)])
    yield _gauge(d.LEASED, (((name,), seats) for name, seats in seen.leases.items()))


def _counter(declared: d.Declaration, samples: Iterable[Sample]) -> Metric:
    family = CounterMetricFamily(declared.name, declared.help, labels=declared.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _gauge(declared: d.Gauge, samples: Iterable[Sample]) -> Metric:
    family = GaugeMetricFamily(declared.name, declared.help, labels=declared.labels)
    for labels, value in samples:
        family.add_metric(labels, value)
    return family


def _histogram(
    declared: d.Declaration, distributions: Iterable[tuple[str, Distribution]]
) -> Metric:
    family = HistogramMetricFamily(declared.name, declared.help, labels=declared.labels)
    for label, distribution in distributions:
        seen = distribution.snapshot()
        buckets = [
            (bound, count, _exemplar(example))
            for (bound, count), example in zip(seen.buckets, distribution.examples(), strict=True)
        ]
        family.add_metric([label], buckets, seen.total)  # type: ignore[arg-type]
    return family


def _exemplar(example: Example | None) -> Exemplar | None:
    """Shown to those who ask for OpenMetrics. None for an id that not everybody could read there:
    its text may have 128 characters, and some readers stumble over what has to be escaped."""
    if example is None:
        return None
    value, of = example
    name, text = ("trace_id", of) if isinstance(of, str) else ("request_id", of.decode("ascii"))
    if len(text) > _LONGEST_EXAMPLE or '"' in text or "\\" in text:
        return None
    return Exemplar({name: text}, value)


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

"""Writes down what became of a request: metrics, access log, trace file. Once per request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.telemetry.request_record import RequestRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.admission.outcome import Reason
    from proxy.edge.status.recent_refusals import RecentRefusals
    from proxy.edge.visit import Visit
    from proxy.telemetry.metrics import Metrics, RouteMetrics


class RecordSink(Protocol):
    """Takes what is known about a request when it is over. Must neither raise nor block."""

    def write(self, record: RequestRecord) -> None: ...


class Records:
    """`route_names` is the closed set of route labels; `wall_clock` gives Unix time in seconds."""

    def __init__(
        self,
        metrics: Metrics,
        route_names: Sequence[str],
        sinks: Sequence[RecordSink],
        wall_clock: Callable[[], float],
        refusals: RecentRefusals,
    ) -> None:
        self._routes: dict[str, RouteMetrics] = {name: metrics.route(name) for name in route_names}
        self._metrics = metrics
        self._sinks = tuple(sinks)
        self._wall_clock = wall_clock
        self._refusals = refusals

    def arrived(self, visit: Visit) -> None:
        """A gated request is here; counted before anything is decided about it."""
        self._routes[visit.route.name].arrived(visit.headers.attempt > 0)

    def shed(self, reason: Reason) -> None:
        """A refusal under load that the admission controller did not make."""
        self._metrics.shed(reason)

    def finished(self, visit: Visit, now: float) -> None:
        """`now`, on the clock of the visit: the last byte was sent, or nothing more will be."""
        duration_s = now - visit.arrived_at
        first_byte_at = visit.relay.first_byte_at
        ttfb_s = None if first_byte_at is None else first_byte_at - visit.arrived_at
        route = self._routes[visit.route.name]
        trace = visit.trace
        of = visit.headers.request_id if trace is None or not trace.is_sampled else trace.hex_id
        route.finished(visit.outcome, duration_s, ttfb_s, of)
        is_wanted = self._refusals.wants(visit.outcome, now)
        if self._sinks or is_wanted:
            record = self._record(visit, duration_s, ttfb_s)
            for sink in self._sinks:
                sink.write(record)
            if is_wanted:
                self._refusals.note(record, now)

    def _record(self, visit: Visit, duration_s: float, ttfb_s: float | None) -> RequestRecord:
        usage = visit.usage
        return RequestRecord(
            arrived_wall_s=self._wall_clock() - duration_s,
            arrived_at_s=visit.arrived_at,
            request_id=visit.headers.request_id.decode("ascii"),
            method=visit.scope["method"],
            route=visit.route.name,
            outcome=visit.outcome,
            status=visit.status,
            duration_s=duration_s,
            queue_wait_s=_queue_wait_s(visit, duration_s),
            ttfb_s=ttfb_s,
            reason=visit.reason,
            upstream=visit.upstream,
            seats=visit.measured.seats,
            attempt=visit.headers.attempt,
            stream=visit.measured.stream,
            body_bytes=visit.request_bytes,
            response_bytes=visit.relay.body_bytes,
            prompt_bytes=visit.measured.prompt_bytes,
            max_tokens=visit.measured.max_tokens,
            prompt_tokens_estimate=visit.prompt_tokens_estimate,
            prompt_tokens=None if usage is None else usage.prompt_tokens,
            output_tokens=None if usage is None else usage.completion_tokens,
            asked_after_s=None if visit.asked_at is None else visit.asked_at - visit.arrived_at,
            trace=visit.trace,
        )


def _queue_wait_s(visit: Visit, duration_s: float) -> float | None:
    """A client that left while it waited was told no time, and waited to the end."""
    if visit.time_in_queue_s is None and visit.asked_at is not None:
        return visit.arrived_at + duration_s - visit.asked_at
    return visit.time_in_queue_s

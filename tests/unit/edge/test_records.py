from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.admission.outcome import Reason
from proxy.admission.snapshot import AdmissionSnapshot
from proxy.edge.records import Records
from proxy.edge.request_headers import RequestHeaders
from proxy.edge.routes import UNKNOWN_ROUTE, Access, Route
from proxy.edge.status.recent_refusals import RecentRefusals
from proxy.edge.visit import Visit
from proxy.openai_api.measure import Measured
from proxy.openai_api.usage import Usage
from proxy.telemetry.metrics import Metrics
from proxy.telemetry.request_outcome import RequestOutcome
from tests.support.client_messages import ClientMessages, SentMessages
from tests.support.gateway_in_memory import RecordList
from tests.support.request_records import request_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.edge.records import RecordSink

ROUTES = ("chat_completions", UNKNOWN_ROUTE.name)


class Books:
    """Records over real metrics, read back from the page."""

    def __init__(self, sinks: Sequence[RecordSink] = ()) -> None:
        self.refusals = RecentRefusals()
        self._metrics = Metrics(ROUTES, lambda: AdmissionSnapshot((), 0, 4, False), dict, str)
        self.records = Records(self._metrics, ROUTES, sinks, lambda: 1_767_225_604.0, self.refusals)

    def value(self, name: str, **labels: str) -> float:
        page, _ = self._metrics.page()
        return sum(
            sample.value
            for family in text_string_to_metric_families(page.decode())
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


def visit(attempt: int = 0) -> Visit:
    scope = {"method": "POST", "http_version": "1.1", "headers": []}
    made = Visit(scope, ClientMessages().receive, SentMessages().send, lambda: 112.25)
    made.route = Route("chat_completions", Access.GATED)
    made.headers = RequestHeaders(b"req-1", attempt=attempt)
    return made


def test_an_arrival_is_a_first_attempt_or_a_retry() -> None:
    books = Books()
    for attempt in (0, 0, 1, 7):
        books.records.arrived(visit(attempt))
    assert books.value("sluice_arrivals_total", attempt="first") == 2
    assert books.value("sluice_arrivals_total", attempt="retry") == 2


def test_a_shed_that_the_core_did_not_make_is_counted_by_its_reason() -> None:
    books = Books()
    books.records.shed(Reason.QUEUE_FULL)
    assert books.value("sluice_shed_total") == 1
    assert books.value("sluice_shed_total", reason="queue_full") == 1


@pytest.mark.parametrize("outcome", RequestOutcome)
def test_the_end_of_a_request_is_counted_once_with_its_outcome(outcome: RequestOutcome) -> None:
    books = Books()
    ended = visit()
    ended.outcome = outcome
    books.records.finished(ended, now=113.0)
    assert books.value("sluice_requests_total") == 1
    labels = {"route": "chat_completions", "outcome": outcome.value}
    assert books.value("sluice_requests_total", **labels) == 1


def test_times_run_from_the_arrival() -> None:
    books = Books()
    ended = visit()
    ended.engine_answered(200)
    ended.relay.first_byte_at = 112.5
    books.records.finished(ended, now=115.75)
    assert books.value("sluice_request_duration_seconds_sum") == 3.5
    assert books.value("sluice_time_to_first_byte_seconds_sum") == 0.25


def test_a_request_without_a_first_byte_has_no_time_to_it() -> None:
    books = Books()
    books.records.finished(visit(), now=115.75)
    assert books.value("sluice_request_duration_seconds_count") == 1
    assert books.value("sluice_time_to_first_byte_seconds_count") == 0


def test_a_client_that_leaves_the_queue_has_waited_until_then() -> None:
    books = Books([sink := RecordList()])
    left = visit()
    left.asked_at = 113.0
    books.records.finished(left, now=115.5)
    assert sink.records[0].queue_wait_s == 2.5
    books.records.finished(visit(), now=115.5)
    assert sink.records[1].queue_wait_s is None


def test_a_request_for_no_route_is_counted_under_a_name_of_ours() -> None:
    books = Books()
    stray = visit()
    stray.route = UNKNOWN_ROUTE
    stray.outcome = RequestOutcome.REJECTED
    books.records.finished(stray, now=113.0)
    assert books.value("sluice_requests_total", route=UNKNOWN_ROUTE.name) == 1


def test_every_sink_gets_all_that_is_known_and_nothing_else() -> None:
    sinks = [RecordList(), RecordList()]
    books = Books(sinks)
    ended = visit(attempt=2)
    ended.engine_answered(200)
    ended.time_in_queue_s = 0.0125
    ended.measured = Measured(seats=4, stream=True, prompt_bytes=400, max_tokens=128)
    ended.usage = Usage(prompt_tokens=93, completion_tokens=20)
    ended.prompt_tokens_estimate = 100
    ended.request_bytes, ended.relay.body_bytes = 900, 5_000
    ended.upstream, ended.reason = "http://engine:8000", "upstream_closed"
    ended.relay.first_byte_at = 112.5
    books.records.finished(ended, now=115.75)
    expected = request_record(seats=4, attempt=2, reason="upstream_closed")
    assert [sink.records for sink in sinks] == [[expected], [expected]]


def test_what_was_never_asked_for_is_absent() -> None:
    sink = RecordList()
    refused = visit()
    refused.outcome, refused.status, refused.reason = RequestOutcome.REJECTED, 413, "body_too_large"
    Books([sink]).records.finished(refused, now=112.25)
    (record,) = sink.records
    assert (record.queue_wait_s, record.ttfb_s, record.upstream) == (None, None, "")
    assert (record.status, record.reason) == (413, "body_too_large")


def test_a_refusal_is_remembered_for_the_status_page_and_nothing_else_is() -> None:
    books = Books()
    for outcome in (RequestOutcome.OK, RequestOutcome.SHED, RequestOutcome.ABANDONED):
        ended = visit()
        ended.outcome = outcome
        ended.reason = "queue_full" if outcome is RequestOutcome.SHED else ""
        books.records.finished(ended, 113.0)
    assert [one["reason"] for one in books.refusals.latest()] == ["queue_full"]

from __future__ import annotations

import random
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from proxy.telemetry import otel_spans
from proxy.telemetry.otel_spans import SpanWriter, exporting_to
from proxy.telemetry.request_outcome import RequestOutcome
from proxy.telemetry.trace_context import Tracing
from tests.support.request_records import request_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan

CALLER = [(b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
TRACING = Tracing(1.0, random.Random(3))
TRACE = TRACING.begin(CALLER)


def spans(**changes: object) -> dict[str, ReadableSpan]:
    """By name, of one request: one that waited, was served and counted."""
    exporter = InMemorySpanExporter()
    writer = SpanWriter(SimpleSpanProcessor(exporter))
    writer.write(request_record(**{"asked_after_s": 0.1, "trace": TRACE, **changes}))
    writer.close()
    return {span.name: span for span in exporter.get_finished_spans()}


def milliseconds(span: ReadableSpan) -> tuple[int, int]:
    """From the arrival to its begin and its end."""
    assert span.start_time is not None
    assert span.end_time is not None
    arrived_ns = int(1_767_225_600.5 * 1e9)
    return (
        round((span.start_time - arrived_ns) / 1e6),
        round((span.end_time - arrived_ns) / 1e6),
    )


def test_a_request_is_its_stages() -> None:
    found = spans()
    assert {name: milliseconds(span) for name, span in found.items()} == {
        "POST chat_completions": (0, 3500),
        "queue": (100, 112),
        "upstream": (112, 250),
        "relay": (250, 3500),
    }


def test_the_request_hangs_on_the_callers_span_and_the_engine_on_ours() -> None:
    found = spans()
    request = found.pop("POST chat_completions")
    assert request.parent is not None
    assert request.parent.span_id == TRACE.parent_id
    assert request.context.span_id == TRACE.span_id
    assert request.kind is SpanKind.SERVER
    assert found["upstream"].context.span_id == TRACE.engine_span_id
    assert found["upstream"].kind is SpanKind.CLIENT
    for span in found.values():
        assert span.parent is not None
        assert span.parent.span_id == TRACE.span_id
        assert span.context.trace_id == TRACE.trace_id


def test_a_trace_that_begins_here_has_the_id_that_the_engine_was_told() -> None:
    trace = TRACING.begin([])
    found = spans(trace=trace)
    assert {span.context.trace_id for span in found.values()} == {trace.trace_id}
    assert found["POST chat_completions"].parent is None
    assert len({span.context.span_id for span in found.values()}) == 4


def test_it_tells_sizes_and_counts_and_nothing_that_was_said() -> None:
    request = spans()["POST chat_completions"]
    assert dict(request.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "chat_completions",
        "http.response.status_code": 200,
        "http.request.body.size": 900,
        "sluice.request_id": "req-1",
        "sluice.outcome": "ok",
        "sluice.attempt": 0,
        "sluice.prompt_tokens_estimate": 100,
        "gen_ai.usage.input_tokens": 93,
        "gen_ai.usage.output_tokens": 20,
    }
    assert request.status.status_code is StatusCode.UNSET
    assert request.resource.attributes["service.name"] == "sluice"


def test_a_refusal_has_waited_and_gone_nowhere() -> None:
    refusal = {
        "outcome": RequestOutcome.SHED,
        "status": 503,
        "reason": "queue_timeout",
        "upstream": "",
        "ttfb_s": None,
        "queue_wait_s": 3.4,
    }
    found = spans(**refusal)
    assert sorted(found) == ["POST chat_completions", "queue"]
    status = found["POST chat_completions"].status
    assert (status.status_code, status.description) == (StatusCode.ERROR, "queue_timeout")


def test_an_engine_that_said_nothing_has_no_relay() -> None:
    found = spans(outcome=RequestOutcome.UPSTREAM_ERROR, status=504, ttfb_s=None)
    assert milliseconds(found["upstream"]) == (112, 3500)
    assert "relay" not in found


def test_what_takes_no_seat_has_no_queue() -> None:
    found = spans(queue_wait_s=None, asked_after_s=None)
    assert "queue" not in found
    assert milliseconds(found["upstream"]) == (0, 250)


@pytest.mark.parametrize("trace", [None, TRACE._replace(is_sampled=False)])
def test_what_is_not_to_be_recorded_is_not(trace: object) -> None:
    assert spans(trace=trace) == {}


@contextmanager
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """An OTLP/HTTP receiver on a socket: its base URL, and what was posted to it."""
    posted: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            posted.append((self.path, body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", posted
        server.shutdown()
        thread.join()


def test_a_collector_gets_them_over_http_before_the_end() -> None:
    with collector() as (url, posted):
        writer = exporting_to(url)
        writer.write(request_record(trace=TRACE, asked_after_s=0.1))
        writer.close()
    ((path, body),) = posted
    assert path == "/v1/traces"
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    (scope,) = resource.scope_spans
    assert {span.name for span in scope.spans} == {
        "POST chat_completions",
        "queue",
        "upstream",
        "relay",
    }
    assert {span.trace_id.hex() for span in scope.spans} == {TRACE.hex_id}


def test_a_collector_that_takes_nothing_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(otel_spans, "_LAST_EXPORT_S", 0.01)
    let_go = threading.Event()

    class Stuck(InMemorySpanExporter):
        def shutdown(self) -> None:
            let_go.wait(10)

    writer = SpanWriter(SimpleSpanProcessor(Stuck()))
    writer.close()
    assert not let_go.is_set()
    let_go.set()


def test_without_it_neither_its_sdk_nor_its_exporter_is_imported() -> None:
    """Its API is FastAPI's to import, which requires it in newer versions."""
    code = (
        "import sys, proxy.app, proxy.cli.serve, proxy.cli.worker;"
        "print([name for name in sys.modules"
        " if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter', 'google.protobuf'))])"
    )
    ran = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]"

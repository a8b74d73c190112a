from __future__ import annotations

import json
from typing import Any

from proxy.telemetry.request_outcome import RequestOutcome
from proxy.telemetry.trace_file import TraceFile
from tests.support.request_records import CollectedLines, request_record


def traced(**changes: object) -> dict[str, Any]:
    sink = CollectedLines()
    TraceFile(sink, started_at_s=100.0).write(request_record(**changes))
    (line,) = sink.lines
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return dict(json.loads(line))


def test_a_line_tells_when_how_large_and_how_it_fared() -> None:
    assert traced() == {
        "v": 2,
        "arrived_wall_s": 1_767_225_600.5,
        "offset_s": 12.25,
        "route": "chat_completions",
        "outcome": "ok",
        "status": 200,
        "seats": 1,
        "body_bytes": 900,
        "response_bytes": 5_000,
        "stream": True,
        "attempt": 0,
        "queue_wait_s": 0.0125,
        "ttfb_s": 0.25,
        "duration_s": 3.5,
        "prompt_bytes": 400,
        "max_tokens": 128,
        "prompt_tokens": 93,
        "output_tokens": 20,
    }


def test_what_never_happened_is_null_and_not_zero() -> None:
    line = traced(outcome=RequestOutcome.REJECTED, queue_wait_s=None, ttfb_s=None)
    assert line["queue_wait_s"] is None
    assert line["ttfb_s"] is None


def test_a_trace_tells_nothing_about_who_asked() -> None:
    line = json.dumps(traced(request_id="kanari-id", upstream="http://kanari-host", method="KAN"))
    assert "kan" not in line.lower()


def test_times_are_kept_to_the_microsecond() -> None:
    assert traced(duration_s=0.123456789)["duration_s"] == 0.123457

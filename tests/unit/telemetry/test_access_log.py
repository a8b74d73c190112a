from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from proxy.telemetry.access_log import AccessLine, AccessLog
from proxy.telemetry.log_format import LogFormat
from proxy.telemetry.request_outcome import RequestOutcome
from proxy.telemetry.trace_context import TraceContext
from tests.support.request_records import CollectedLines, request_record


def logged(log_format: LogFormat, **changes: object) -> str:
    sink = CollectedLines()
    AccessLog(sink, log_format).write(request_record(**changes))
    (line,) = sink.lines
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return line.decode()


def test_a_json_line_holds_what_on_call_asks_for() -> None:
    assert json.loads(logged(LogFormat.JSON)) == {
        "time": "2026-01-01T00:00:00.500000Z",
        "level": "info",
        "logger": "access",
        "request_id": "req-1",
        "method": "POST",
        "route": "chat_completions",
        "status": 200,
        "outcome": "ok",
        "reason": "",
        "queue_wait_ms": 12.5,
        "ttfb_ms": 250.0,
        "duration_ms": 3500.0,
        "body_bytes": 900,
        "bytes": 5000,
        "seats": 1,
        "attempt": 0,
        "stream": True,
        "prompt_tokens_estimate": 100,
        "prompt_tokens": 93,
        "output_tokens": 20,
        "upstream": "http://engine:8000",
        "trace_id": None,
    }


def test_what_never_happened_is_null_and_not_zero() -> None:
    line = json.loads(logged(LogFormat.JSON, queue_wait_s=None, ttfb_s=None))
    assert line["queue_wait_ms"] is None
    assert line["ttfb_ms"] is None


def test_a_console_line_reads_from_left_to_right() -> None:
    line = logged(LogFormat.CONSOLE)
    assert line.split(" ", 1)[1] == (
        "200 POST chat_completions ok queue=12.5ms ttfb=250.0ms total=3500.0ms bytes=5000 seats=1 "
        'upstream=http://engine:8000 id="req-1"\n'
    )


def test_a_refusal_on_the_console_says_why() -> None:
    line = logged(
        LogFormat.CONSOLE,
        status=503,
        outcome=RequestOutcome.SHED,
        reason="queue_full",
        queue_wait_s=None,
        ttfb_s=None,
        upstream="",
    )
    assert "503 POST chat_completions shed (queue_full) queue=- ttfb=- " in line
    assert " upstream=- " in line


def test_a_client_that_left_before_any_answer_has_no_status() -> None:
    line = logged(LogFormat.CONSOLE, status=0, outcome=RequestOutcome.ABANDONED)
    assert " --- POST chat_completions abandoned " in line


def test_an_id_cannot_start_a_line_of_its_own() -> None:
    for log_format in LogFormat:
        line = logged(log_format, request_id="a\n\x1b[2J\u2028{}", method="PO\nST")
        assert line.count("\n") == 1
        assert "\x1b" not in line
        assert "\u2028" not in line


def kept(share: float, count: int = 2000, **changes: object) -> list[str]:
    """The ids of the requests of which there is a line."""
    sink = CollectedLines()
    log = AccessLog(sink, LogFormat.JSON, share)
    for number in range(count):
        log.write(request_record(request_id=f"req-{number}", **changes))
    return [json.loads(line)["request_id"] for line in sink.lines]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_of_what_went_well_there_are_lines_of_that_share(share: float) -> None:
    assert len(kept(share)) == pytest.approx(2000 * share, abs=60)


def test_two_gateways_keep_the_same_ones_and_a_larger_share_keeps_those_too() -> None:
    few, same, more = kept(0.1), kept(0.1), kept(0.3)
    assert few == same
    assert set(few) < set(more)


@pytest.mark.parametrize("outcome", [one for one in RequestOutcome if one is not RequestOutcome.OK])
def test_of_what_did_not_go_well_there_is_always_a_line(outcome: RequestOutcome) -> None:
    assert len(kept(0.0, 20, outcome=outcome)) == 20


def test_every_field_is_documented_and_nothing_else() -> None:
    page = (Path(__file__).parents[3] / "docs" / "access-log.md").read_text()
    rows = re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)
    documented = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert documented == list(AccessLine.__struct_fields__)


def test_of_a_request_that_is_traced_the_line_has_the_trace() -> None:
    trace = TraceContext(10, 0, 2, 3, is_sampled=True)
    assert json.loads(logged(LogFormat.JSON, trace=trace))["trace_id"] == f"{10:032x}"

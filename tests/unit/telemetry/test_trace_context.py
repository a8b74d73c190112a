from __future__ import annotations

import random

import pytest

from proxy.telemetry.trace_context import TraceContext, Tracing

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


def begun(*values: str, share: float = 1.0, seed: int = 1) -> TraceContext:
    headers = [(b"traceparent", value.encode()) for value in values]
    return Tracing(share, random.Random(seed)).begin(headers)


@pytest.mark.parametrize(("flags", "is_sampled"), [("01", True), ("00", False), ("03", True)])
def test_a_request_belongs_to_its_callers_trace_who_decides_whether_it_is_recorded(
    flags: str, is_sampled: bool
) -> None:
    trace = begun(f"00-{TRACE}-b7ad6b7169203331-{flags}", share=0.5)
    assert (trace.hex_id, f"{trace.parent_id:x}") == (TRACE, "b7ad6b7169203331")
    assert trace.is_sampled is is_sampled


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00-1-2-01",
        PARENT.upper(),
        PARENT + "-more",
        f"ff{PARENT[2:]}",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-{TRACE}-{'0' * 16}-01",
    ],
)
def test_what_is_not_sound_is_the_begin_of_another_trace(value: str) -> None:
    trace = begun(value)
    assert trace.parent_id == 0
    assert trace.hex_id != TRACE


def test_two_parents_are_none() -> None:
    assert begun(PARENT, PARENT).parent_id == 0


def test_a_later_version_may_say_more() -> None:
    assert begun(f"01{PARENT[2:]}-more").hex_id == TRACE


def test_of_the_traces_that_begin_here_a_share_is_recorded() -> None:
    tracing = Tracing(0.25, random.Random(7))
    assert sum(tracing.begin([]).is_sampled for _ in range(2000)) == pytest.approx(500, abs=80)
    assert not begun(share=0.0).is_sampled
    assert begun(share=1.0).is_sampled


def test_the_engine_hangs_its_spans_on_ours_and_hears_the_callers_state() -> None:
    trace = begun(PARENT)
    sent = [(b"traceparent", PARENT.encode()), (b"tracestate", b"a=1"), (b"accept", b"*/*")]
    passed = trace.passed_on(sent)
    assert passed[:-1] == [(b"tracestate", b"a=1"), (b"accept", b"*/*")]
    assert passed[-1] == (
        b"traceparent",
        f"00-{TRACE}-{trace.engine_span_id:016x}-01".encode(),
    )


def test_a_state_without_a_sound_trace_goes_no_further() -> None:
    trace = begun("broken", share=0.0)
    passed = trace.passed_on([(b"traceparent", b"broken"), (b"tracestate", b"a=1")])
    assert passed == [
        (b"traceparent", f"00-{trace.hex_id}-{trace.engine_span_id:016x}-00".encode())
    ]

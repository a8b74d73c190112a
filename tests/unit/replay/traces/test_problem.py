"""What is wrong with a line is told apart from what is wrong with a file."""

from __future__ import annotations

from proxy.replay.traces.problem import BadLineError, BadTraceError


def test_a_bad_line_is_no_bad_trace_until_somebody_names_the_file() -> None:
    assert not issubclass(BadLineError, BadTraceError)

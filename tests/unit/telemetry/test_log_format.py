from __future__ import annotations

from proxy.telemetry.log_format import LogFormat


def test_a_terminal_gets_lines_for_people_and_anything_else_json() -> None:
    assert LogFormat.for_stream(is_terminal=True) is LogFormat.CONSOLE
    assert LogFormat.for_stream(is_terminal=False) is LogFormat.JSON

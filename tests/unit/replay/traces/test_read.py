"""The form of a trace is told by its content, not by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.replay.traces.problem import BadTraceError
from proxy.replay.traces.read import read_trace
from proxy.replay.traces.trace import Window

if TYPE_CHECKING:
    from pathlib import Path

_AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00,1,1\n"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "empty"),
        ("a,b\n1,2\n", "line 1: not a trace of the gateway"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no request to replay"),
    ],
)
def test_what_is_no_trace_is_said_in_one_line(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(BadTraceError, match=complaint):
        read_trace(path)


def test_a_cut_off_last_line_is_a_note(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(_AZURE + "2023-11-16 18:0")
    assert read_trace(path).notes == ("its last line is cut off and left out",)


def test_a_window_with_nothing_in_it_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(_AZURE)
    with pytest.raises(BadTraceError, match="no request"):
        read_trace(path, Window(from_s=10))

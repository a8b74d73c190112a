"""Azure's traces of three years."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.replay.arrival import Arrival
from proxy.replay.traces.problem import BadTraceError
from proxy.replay.traces.read import read_trace

if TYPE_CHECKING:
    from pathlib import Path

_2023 = (
    b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    b"2023-11-16 18:00:00.5000000,374,44\r\n2023-11-16 18:00:01.7500001,396,109"
)


def test_2023_has_seven_digits_crlf_and_no_last_line_end(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(_2023)
    trace = read_trace(path)
    assert trace.format == "azure"
    assert trace.arrivals[0] == Arrival(0.0, 374, 44)
    assert trace.arrivals[1].at_s == pytest.approx(1.25, abs=1e-5)


def test_2024_has_offsets_and_may_have_no_fraction(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2024-05-10 00:00:00.500000+00:00,2162,5\n2024-05-10 00:00:02+00:00,7,1\n"
    )
    assert [a.at_s for a in read_trace(path).arrivals] == [0.0, 1.5]


def test_2025_has_images_which_are_left_out_and_said(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2025-01-01 00:00:00,2,300,5\n"
    )
    trace = read_trace(path)
    assert trace.arrivals == (Arrival(0.0, 300, 5),)
    assert trace.notes == ("its images are left out: prompts are text",)


def test_a_bad_row_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(_2023.replace(b"374", b"many") + b"\n")
    with pytest.raises(BadTraceError, match=r"line 2: ContextTokens is 'many'"):
        read_trace(path)

"""JSON lines with lengths and, maybe, shared blocks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy.replay.traces.problem import BadTraceError
from proxy.replay.traces.read import read_trace

if TYPE_CHECKING:
    from pathlib import Path


def _written(path: Path, *rows: dict[str, Any]) -> Path:
    file = path / "m.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def _row(timestamp: float, tokens: int, block: int = 0) -> dict[str, Any]:
    ids = list(range(-(-tokens // block))) if block else []
    return {"timestamp": timestamp, "input_length": tokens, "output_length": 3, "hash_ids": ids}


@pytest.mark.parametrize("block", [512, 16])
def test_the_size_of_a_block_is_told_by_the_number_of_ids(tmp_path: Path, block: int) -> None:
    trace = read_trace(_written(tmp_path, _row(0, 1300, block), _row(1500, 700, block)))
    assert trace.block_tokens == block
    assert trace.arrivals[1].at_s == pytest.approx(1.5)
    assert trace.notes == ("its times are read as milliseconds",)


def test_fractions_of_a_unit_are_fractions_of_a_second(tmp_path: Path) -> None:
    trace = read_trace(_written(tmp_path, _row(0, 10), _row(1.5, 10)))
    assert trace.arrivals[1].at_s == 1.5
    assert trace.block_tokens == 0


def test_the_caller_knows_the_unit_better(tmp_path: Path) -> None:
    trace = read_trace(_written(tmp_path, _row(0, 10), _row(2, 10)), unit="s")
    assert trace.arrivals[1].at_s == 2.0


def test_no_row_is_lost_behind_those_that_are_looked_at_first(tmp_path: Path) -> None:
    rows = [_row(i, 10) for i in range(1005)]
    assert len(read_trace(_written(tmp_path, *rows)).arrivals) == 1005


def test_a_row_without_a_time_is_bad(tmp_path: Path) -> None:
    with pytest.raises(BadTraceError, match="line 2: timestamp is None"):
        read_trace(_written(tmp_path, _row(0, 1), {"input_length": 1, "output_length": 1}))

"""Columns are found by name, however it is spelt."""

from __future__ import annotations

import pytest

from proxy.replay.traces.csv_columns import Columns, CsvTrace, cells_of, names_of
from proxy.replay.traces.numbers import seconds
from proxy.replay.traces.problem import BadLineError


def test_names_ignore_case_blanks_and_underscores() -> None:
    assert names_of("Request tokens, Log_Type") == ["requesttokens", "logtype"]


def test_a_trace_is_told_by_its_columns_whatever_else_it_has() -> None:
    form = CsvTrace("Timestamp", "Request tokens", "Response tokens", seconds)
    assert form.has("Model,response_tokens,Request Tokens,TIMESTAMP")
    assert not form.has("Timestamp,Request tokens")


def test_columns_are_picked_wherever_they_stand() -> None:
    columns = Columns("b,x,a", ["a", "b"])
    assert columns.pick("1,2,3") == ["3", "1"]
    assert columns.pick('1,"two, or so",3') == ["3", "1"]


def test_a_line_of_another_width_is_bad() -> None:
    with pytest.raises(BadLineError, match="2 columns where the first line has 3"):
        Columns("a,b,c", ["a"]).pick("1,2")


def test_a_broken_quote_is_bad() -> None:
    with pytest.raises(BadLineError, match="not CSV"):
        cells_of('a,"b')

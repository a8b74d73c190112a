"""Columns are found by name, however it is spelt."""

from __future__ import annotations

import pytest

from proxy.replay.traces.csv_columns import Columns, cells_of, names_of
from proxy.replay.traces.problem import BadLineError


def test_names_ignore_case_blanks_and_underscores() -> None:
    assert names_of("Request tokens, Log_Type") == ["requesttokens", "logtype"]


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

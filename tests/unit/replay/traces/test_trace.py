"""A window of a trace counts from the trace's first request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.replay.arrival import Arrival
from proxy.replay.traces.trace import Window, within

if TYPE_CHECKING:
    from collections.abc import Iterator


def _rows(*times_s: float) -> list[Arrival]:
    return [Arrival(at_s, 1, 1) for at_s in times_s]


def _times(rows: tuple[Arrival, ...]) -> list[float]:
    return [row.at_s for row in rows]


def test_a_window_begins_at_nought_and_leaves_out_its_end() -> None:
    rows = within(_rows(100, 101, 102, 103), Window(1, 3), in_order=True)
    assert _times(rows) == [0, 1]


def test_rows_in_order_are_read_no_further_than_needed() -> None:
    def rows() -> Iterator[Arrival]:
        yield from _rows(0, 1, 2)
        raise AssertionError("read too far")

    assert _times(within(rows(), Window(until_s=2), in_order=True)) == [0, 1]


def test_rows_out_of_order_are_put_in_order() -> None:
    assert _times(within(_rows(5, 3, 4), Window(), in_order=False)) == [0, 1, 2]

"""An arrival is a value."""

from __future__ import annotations

from proxy.replay.arrival import Arrival


def test_equal_arrivals_are_equal_and_a_trace_without_blocks_shares_nothing() -> None:
    assert Arrival(1.0, 10, 5) == Arrival(1.0, 10, 5, ())

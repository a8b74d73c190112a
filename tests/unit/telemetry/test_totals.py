from __future__ import annotations

from proxy.telemetry.instruments import Distribution
from proxy.telemetry.totals import Totals


def test_refusals_are_summed_over_their_reasons() -> None:
    waits = Distribution((1.0,)).snapshot()
    assert Totals(9, 1, 2, {"queue_full": 3, "draining": 4}, waits).shed == 7

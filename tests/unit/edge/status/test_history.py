from __future__ import annotations

import pytest

from proxy.admission.snapshot import AdmissionSnapshot, UpstreamSnapshot
from proxy.edge.status.history import History
from proxy.telemetry.instruments import Distribution
from proxy.telemetry.totals import Totals

WAITS = Distribution((0.5, 1.0, 2.0))


def snapshot(in_flight: int = 0) -> AdmissionSnapshot:
    engine = UpstreamSnapshot("e", in_flight=in_flight, limit=7, suspended=False)
    return AdmissionSnapshot((engine,), queue_depth=3, max_queue_depth=9, draining=False)


def totals(arrivals: int = 0, retries: int = 0, ok: int = 0, shed: int = 0) -> Totals:
    return Totals(arrivals, retries, ok, {"queue_full": shed, "draining": 0}, WAITS.snapshot())


def test_a_series_has_what_happened_in_each_second() -> None:
    history = History()
    history.add(snapshot(2), totals(100, 10, 50, 40))
    history.add(snapshot(5), totals(130, 15, 60, 45))
    assert history.series() == {
        "every_s": 1.0,
        "in_flight": [2, 5],
        "limit": [7, 7],
        "queue_depth": [3, 3],
        "arrivals": [0, 30],
        "retries": [0, 5],
        "shed": [0, 5],
        "ok": [0, 10],
    }


def test_ten_minutes_are_kept() -> None:
    history = History()
    for number in range(700):
        history.add(snapshot(number), totals())
    assert history.series()["in_flight"] == list(range(100, 700))


def test_the_last_minute_is_a_minute_long() -> None:
    history = History()
    for second in range(100):
        busy = second < 50
        history.add(snapshot(), totals(arrivals=1000 * min(second, 50) if busy else 49_000))
    assert history.last_minute()["arrivals_per_s"] == pytest.approx(9000 / 60, rel=0.2)


def test_the_last_minute_tells_shares_and_waits() -> None:
    history = History()
    history.add(snapshot(), totals())
    for wait_s in (0.75, 1.5):
        WAITS.observe(wait_s)
    history.add(snapshot(), totals(arrivals=10, retries=2, ok=4, shed=5))
    minute = history.last_minute()
    assert minute["arrivals_per_s"] == 10
    assert minute["ok_per_s"] == 4
    assert minute["shed_share"] == 0.5
    assert minute["tries_per_request"] == 1.25
    assert minute["wait_p50_s"] == 1.0
    assert minute["wait_p95_s"] == pytest.approx(1.9)


def test_shares_of_nothing_are_unknown() -> None:
    history = History()
    history.add(snapshot(), totals())
    assert history.last_minute()["shed_share"] is None
    history.add(snapshot(), totals())
    minute = history.last_minute()
    assert minute["shed_share"] is None
    assert minute["tries_per_request"] is None
    assert minute["wait_p95_s"] is None

from __future__ import annotations

from proxy.admission.snapshot import AdmissionSnapshot, UpstreamSnapshot


def test_totals_are_sums_over_the_upstreams() -> None:
    snapshot = AdmissionSnapshot(
        upstreams=(
            UpstreamSnapshot("a", in_flight=3, limit=8, suspended=False),
            UpstreamSnapshot("b", in_flight=1, limit=4, suspended=True),
        ),
        queue_depth=0,
        max_queue_depth=12,
        draining=False,
    )
    assert snapshot.in_flight == 4
    assert snapshot.limit == 12

from __future__ import annotations

from proxy.admission.snapshot import NO_DEMAND, AdmissionSnapshot, UpstreamSnapshot


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


def test_where_no_tokens_are_counted_there_are_none() -> None:
    seen = UpstreamSnapshot("a", in_flight=3, limit=8, suspended=False)
    assert (seen.prefill_tokens, seen.kv_tokens) == (0, 0)


def test_no_demand_is_none_of_anything() -> None:
    assert not any(NO_DEMAND)

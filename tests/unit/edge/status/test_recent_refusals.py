from __future__ import annotations

from proxy.edge.status.recent_refusals import RecentRefusals
from proxy.telemetry.request_outcome import RequestOutcome
from proxy.telemetry.request_record import RequestRecord


def refused(number: int = 0) -> RequestRecord:
    return RequestRecord(
        arrived_wall_s=1000.0,
        arrived_at_s=0.0,
        request_id=f"r{number}",
        method="POST",
        route="chat",
        outcome=RequestOutcome.SHED,
        status=503,
        duration_s=0.25,
        queue_wait_s=0.0,
        reason="queue_full",
        attempt=1,
    )


def test_only_refusals_are_wanted() -> None:
    refusals = RecentRefusals()
    assert refusals.wants(RequestOutcome.SHED, 0.0)
    assert refusals.wants(RequestOutcome.REJECTED, 0.0)
    assert not refusals.wants(RequestOutcome.OK, 0.0)


def test_of_a_flood_only_some_are_wanted() -> None:
    refusals = RecentRefusals()
    noted = 0
    for milliseconds in range(1000):
        now = milliseconds / 1000
        if refusals.wants(RequestOutcome.SHED, now):
            refusals.note(refused(), now)
            noted += 1
    assert noted == 20


def test_the_newest_comes_first_and_the_oldest_go() -> None:
    refusals = RecentRefusals()
    for number in range(60):
        refusals.note(refused(number), float(number))
    shown = refusals.latest()
    assert [one["request_id"] for one in shown] == [f"r{number}" for number in range(59, 9, -1)]


def test_a_refusal_is_shown_without_anything_that_a_client_wrote_but_its_id() -> None:
    refusals = RecentRefusals()
    refusals.note(refused(), 0.0)
    assert refusals.latest() == [
        {
            "at": 1000.25,
            "request_id": "r0",
            "route": "chat",
            "reason": "queue_full",
            "status": 503,
            "waited_s": 0.0,
            "attempt": 1,
        }
    ]

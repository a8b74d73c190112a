from __future__ import annotations

from proxy.telemetry.request_outcome import RequestOutcome


def test_the_outcomes_are_the_closed_set_that_dashboards_rely_on() -> None:
    assert {str(outcome) for outcome in RequestOutcome} == {
        "ok",
        "client_error",
        "upstream_error",
        "upstream_overloaded",
        "shed",
        "abandoned",
        "rejected",
    }

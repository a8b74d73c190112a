from __future__ import annotations

import pytest

from proxy.edge.routes import UNKNOWN_ROUTE
from proxy.edge.visit import Visit
from proxy.telemetry.request_outcome import RequestOutcome
from tests.support.client_messages import ClientMessages, SentMessages


def visit() -> Visit:
    scope = {"http_version": "1.1", "headers": []}
    return Visit(scope, ClientMessages().receive, SentMessages().send, lambda: 12.5)


def test_a_visit_begins_with_nothing_known_but_its_arrival() -> None:
    begun = visit()
    assert begun.arrived_at == 12.5
    assert begun.outcome is RequestOutcome.ABANDONED  # what it is when nobody says otherwise
    assert (begun.route, begun.status, begun.reason, begun.measured.seats) == (
        UNKNOWN_ROUTE,
        0,
        "",
        0,
    )
    assert begun.time_in_queue_s is None
    assert not begun.authenticated
    assert not begun.body_read
    assert not begun.relay.started


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        ([200, 201, 204, 301, 307, 399], RequestOutcome.OK),
        ([400, 401, 403, 404, 413, 422, 499], RequestOutcome.CLIENT_ERROR),
        ([500, 501, 502, 504, 599], RequestOutcome.UPSTREAM_ERROR),
        ([429, 503], RequestOutcome.UPSTREAM_OVERLOADED),
    ],
)
def test_the_engines_status_says_whose_doing_it_was(
    statuses: list[int], outcome: RequestOutcome
) -> None:
    for status in statuses:
        answered = visit()
        answered.engine_answered(status)
        assert (answered.status, answered.outcome) == (status, outcome)


def test_a_visit_takes_no_attributes_that_nobody_declared() -> None:
    with pytest.raises(AttributeError):
        visit().colour = "blue"  # type: ignore[attr-defined]

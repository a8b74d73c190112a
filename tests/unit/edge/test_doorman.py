from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

import pytest

from proxy.admission.controller import AdmissionController
from proxy.admission.outcome import Reason, Rejected
from proxy.admission.retry_budget import RetryBudget
from proxy.admission.snapshot import AdmissionSnapshot
from proxy.edge.answers import Refusal
from proxy.edge.api_keys import ApiKeys
from proxy.edge.doorman import Doorman
from proxy.edge.intake import Intake
from proxy.edge.open_places import OpenFullError, OpenPlaces
from proxy.edge.records import Records
from proxy.edge.request_headers import HeaderReader, RequestHeaders
from proxy.edge.routes import UNKNOWN_ROUTE, RouteTable
from proxy.edge.status.recent_refusals import RecentRefusals
from proxy.edge.visit import Visit
from proxy.env_values.key_digest import KeyDigest
from proxy.telemetry.metrics import Metrics
from tests.support.admission import RecordingObserver, one_upstream
from tests.support.client_messages import ClientMessages, SentMessages
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.asgi_transport import Headers

CHAT = b"/v1/chat/completions"
BAD = (b"x-sluice-priority", b"urgent")


class Door:
    """A doorman before an engine with `seats` and no waiting places."""

    def __init__(self, seats: int = 1, keys: dict[str, str] | None = None) -> None:
        routes = RouteTable.build()
        loop = asyncio.get_running_loop()
        self.metrics = Metrics(
            routes.names(), lambda: AdmissionSnapshot((), 0, 0, False), dict, str
        )
        self.observer = RecordingObserver()
        self.open_places = OpenPlaces(Intake(100, 1.0, 100), RetryBudget(0.2), loop.time)
        self.open_places.resize(1, engines=1)
        self.doorman = Doorman(
            header_reader=HeaderReader(),
            keys=ApiKeys({name: KeyDigest.of(key) for name, key in (keys or {}).items()}),
            routes=routes,
            controller=AdmissionController(one_upstream(seats), 0, loop.time, self.observer),
            records=Records(self.metrics, routes.names(), (), loop.time, RecentRefusals()),
            open_places=self.open_places,
            queue_timeout_s=lambda: 5.0,
        )
        self.visit: Visit

    def objection(
        self, headers: Headers = (), method: str = "POST", target: bytes = CHAT
    ) -> Refusal | Rejected | OpenFullError | None:
        scope = {
            "method": method,
            "raw_path": target,
            "http_version": "1.1",
            "headers": list(headers),
        }
        self.visit = Visit(scope, ClientMessages().receive, SentMessages().send, now)
        return self.doorman.objection(self.visit)

    def refused_with(
        self, headers: Headers = (), method: str = "POST", target: bytes = CHAT
    ) -> str:
        objection = self.objection(headers, method, target)
        assert isinstance(objection, Refusal)
        return objection.answer.code

    @property
    def arrivals(self) -> int:
        page, _ = self.metrics.page()
        return page.count(b'sluice_arrivals_total{attempt="first"} 1.0')


def at(door: Callable[[Door], None], **how: int) -> None:
    async def scenario() -> None:
        door(Door(**how))

    run(scenario())


def test_who_may_come_in_is_written_down() -> None:
    def visit(door: Door) -> None:
        assert door.objection([(b"x-request-id", b"mine")]) is None
        assert door.visit.headers.request_id == b"mine"
        assert door.visit.route.name == "chat_completions"
        assert door.arrivals == 1

    at(visit)


def test_an_open_route_passes_and_is_no_arrival() -> None:
    def visit(door: Door) -> None:
        assert door.objection(method="GET", target=b"/v1/models") is None
        assert (door.visit.route.name, door.arrivals) == ("models", 0)

    at(visit, seats=0)


def test_one_open_request_too_many_is_told_so_before_its_body_is_read() -> None:
    def visit(door: Door) -> None:
        assert door.objection(target=b"/tokenize") is None
        with door.open_places.take(door.visit.route, 0):
            assert isinstance(door.objection(target=b"/tokenize"), OpenFullError)
            assert door.visit.route.name == "tokenize"
            assert door.objection(method="GET", target=b"/v1/models") is None

    at(visit)


@pytest.mark.parametrize(
    ("headers", "method", "target", "code"),
    [
        ([BAD], "POST", CHAT, "bad_request"),
        ([], "POST", b"/sleep", "unknown_path"),
        ([], "GET", CHAT, "method_not_allowed"),
    ],
)
def test_what_is_not_served_has_no_route_and_is_no_arrival(
    headers: Headers, method: str, target: bytes, code: str
) -> None:
    def visit(door: Door) -> None:
        assert door.refused_with(headers, method, target) == code
        assert (door.visit.route, door.arrivals) == (UNKNOWN_ROUTE, 0)

    at(visit)


def test_a_stranger_hears_nothing_but_that() -> None:
    async def scenario() -> None:
        door = Door(seats=0, keys={"ann": "sk-ann"})
        for headers, target in (([], CHAT), ([BAD], CHAT), ([], b"/sleep")):
            assert door.refused_with(headers, target=target) == "invalid_api_key"
        known = (b"authorization", b"Bearer sk-ann")
        assert door.refused_with([known], target=b"/sleep") == "unknown_path"
        assert (door.visit.authenticated, door.visit.headers.tenant) == (True, "ann")

    run(scenario())


def test_who_finds_no_seat_and_no_place_is_rejected_by_the_core() -> None:
    def visit(door: Door) -> None:
        objection = door.objection()
        assert isinstance(objection, Rejected)
        assert objection.reason is Reason.QUEUE_FULL
        assert objection.__traceback__ is None  # nothing was raised
        assert door.arrivals == 1

    at(visit, seats=0)


@pytest.mark.parametrize(
    ("ours", "clients", "longest"), [(None, None, 5), (2.0, None, 2), (2.0, 1.0, 1), (9.0, 8.0, 5)]
)
def test_the_shortest_of_all_bounds_on_the_wait_holds(
    ours: float | None, clients: float | None, longest: float
) -> None:
    def visit(door: Door) -> None:
        headers = RequestHeaders(b"", queue_timeout_s=ours, client_timeout_s=clients)
        assert math.isclose(door.doorman.longest_wait_s(headers), longest)

    at(visit)

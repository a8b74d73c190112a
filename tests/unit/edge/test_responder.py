from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
from dataclasses import dataclass, field

import pytest

from proxy.admission.outcome import Evicted, Load, Reason, RefusalFacts, Rejected
from proxy.admission.retry_after import RetryAfter
from proxy.edge import error_table
from proxy.edge.answers import Refusal
from proxy.edge.client_connection import ConnectionRefusal
from proxy.edge.client_watch import Interrupted, Interruption
from proxy.edge.intake import IntakeFullError
from proxy.edge.open_places import OpenFullError
from proxy.edge.request_headers import RequestHeaders
from proxy.edge.responder import Responder
from proxy.edge.routes import UNKNOWN_ROUTE, Access, Route
from proxy.edge.visit import Visit
from proxy.openai_api.measure import Measured, RequestShape
from proxy.telemetry.request_outcome import RequestOutcome
from proxy.upstream.errors import UpstreamClosedError, UpstreamTimeoutError
from tests.support.chunked_response import ChunkedResponse
from tests.support.client_messages import ClientLine
from tests.support.scripted_app import error_of, event_error
from tests.support.virtual_time import now, run

FACTS = RefusalFacts(Reason.QUEUE_FULL, 1, Load(2, 2, 4, 4), 0.5, 3.0)
ON_ARRIVAL = FACTS._replace(time_in_queue_s=0.0)
SSE = (b"content-type", b"text/event-stream")
GATED = Route("completions", Access.GATED)
OPEN = Route("models", Access.OPEN)


@dataclass
class Desk:
    """A responder and one request that it answers."""

    draining: bool = False
    overload_status: int = 503
    body_read: bool = True
    closes: bool = True
    waits: list[float] = field(default_factory=list)
    sheds: list[Reason] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.line = ClientLine(closes=self.closes)
        self.visit = Visit(
            self.line.scope(method="POST"), self.line.client.receive, self.line.sent.send, now
        )
        self.visit.route = GATED
        self.visit.headers = RequestHeaders(b"req-1")
        self.visit.body_read = self.body_read
        self.responder = Responder(
            overload_status=self.overload_status,
            write_timeout_s=60,
            retry_after=self._retry_after,
            invite_back=lambda: True,
            engine_state=lambda model: f"engine of {model}: connection refused",
            draining=lambda: self.draining,
            shed=self.sheds.append,
        )

    def _retry_after(self, expected_wait_s: float) -> RetryAfter:
        self.waits.append(expected_wait_s)
        return RetryAfter(7, 6500)

    async def begin_answer(self, *headers: tuple[bytes, bytes]) -> None:
        """Sends a head and one chunk, and nothing after them."""
        self.visit.engine_answered(200)
        unfinished = ChunkedResponse([b"data: 1\n\n"], error=UpstreamClosedError("gone"))
        with contextlib.suppress(UpstreamClosedError):
            await self.visit.relay.pass_on(unfinished, list(headers), lambda: None)

    async def respond(self, error: Exception) -> None:
        await self.responder.respond(self.visit, error)

    @property
    def header(self) -> dict[bytes, bytes]:
        return self.line.sent.headers

    def check(self, status: int, code: str, outcome: RequestOutcome) -> None:
        """The answer is whole, and the records have what it says."""
        assert self.line.sent.status == self.visit.status == status
        assert error_of(self.line.sent.body)["code"] == self.visit.reason == code
        assert self.header[b"x-sluice-reason"] == code.encode()
        assert self.header[b"x-request-id"] == b"req-1"
        assert self.visit.outcome is outcome
        assert self.line.sent.is_complete


def test_a_refusal_for_what_a_request_is_counts_as_rejected() -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.respond(Refusal(error_table.bad_request("not JSON")))
        desk.check(400, "bad_request", RequestOutcome.REJECTED)
        assert b"connection" not in desk.header

    run(scenario())


@pytest.mark.parametrize("kind", [Rejected, Evicted])
def test_a_refusal_of_the_core_counts_as_shed(kind: type[Rejected | Evicted]) -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.respond(kind(FACTS))
        desk.check(503, "queue_full", RequestOutcome.SHED)
        assert desk.waits == [3.0]
        assert desk.header[b"retry-after"] == b"7"
        assert desk.header[b"server-timing"] == b"queue;dur=500.0"
        assert desk.visit.time_in_queue_s == 0.5

    run(scenario())


def test_the_overload_status_is_as_it_is_set() -> None:
    async def scenario() -> None:
        desk = Desk(overload_status=429)
        await desk.respond(Rejected(FACTS))
        desk.check(429, "queue_full", RequestOutcome.SHED)

    run(scenario())


def test_who_had_a_seat_before_is_told_how_long_it_waited_in_all() -> None:
    async def scenario() -> None:
        desk = Desk()
        desk.visit.time_in_queue_s = 1.25
        await desk.respond(Evicted(FACTS))
        assert desk.header[b"server-timing"] == b"queue;dur=1750.0"
        assert "waited 1.75 s" in error_of(desk.line.sent.body)["message"]
        assert desk.visit.time_in_queue_s == 1.75

    run(scenario())


def test_a_refusal_for_the_engines_sake_says_what_is_wrong_with_it() -> None:
    async def scenario() -> None:
        desk = Desk()
        desk.visit.measured = Measured(seats=1, model="tiny")
        await desk.respond(Rejected(FACTS._replace(reason=Reason.UPSTREAM_UNAVAILABLE)))
        desk.check(503, "upstream_unavailable", RequestOutcome.SHED)
        said = error_of(desk.line.sent.body)["message"]
        assert said.startswith("No engine can serve the request now: engine of tiny: connection")

    run(scenario())


@pytest.mark.parametrize("draining", [True, False])
def test_a_page_of_ours_is_a_whole_answer(draining: bool) -> None:
    async def scenario() -> None:
        desk = Desk(draining=draining)
        await desk.responder.give(desk.visit, b'{"a": 1}')
        assert desk.line.sent.body == b'{"a": 1}'
        assert desk.header[b"content-type"] == b"application/json"
        assert desk.header[b"content-length"] == b"8"
        assert desk.header[b"x-request-id"] == b"req-1"
        assert b"x-sluice-reason" not in desk.header
        assert (desk.header.get(b"connection") == b"close") is draining
        assert (desk.visit.status, desk.visit.outcome) == (200, RequestOutcome.OK)

    run(scenario())


@pytest.mark.parametrize("invites", [True, False])
def test_who_takes_no_seat_is_invited_back_as_the_open_places_say(invites: bool) -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.respond(OpenFullError(1000, invites=invites))
        assert desk.header[b"x-should-retry"] == (b"true" if invites else b"false")

    run(scenario())


@pytest.mark.parametrize("error", [IntakeFullError(1000), OpenFullError(1000, invites=True)])
def test_a_full_intake_counts_as_shed_and_so_do_too_many_open_requests(error: Exception) -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.respond(error)
        desk.check(503, "queue_full", RequestOutcome.SHED)
        assert desk.waits == [math.inf]
        assert desk.sheds == [Reason.QUEUE_FULL]

    run(scenario())


def test_an_engine_that_broke_before_its_answer_gives_a_502() -> None:
    async def scenario() -> None:
        desk = Desk()
        desk.visit.time_in_queue_s = 0.25
        await desk.respond(UpstreamClosedError("closed the connection"))
        desk.check(502, "upstream_closed", RequestOutcome.UPSTREAM_ERROR)
        assert desk.header[b"server-timing"] == b"queue;dur=250.0"
        assert b"retry-after" not in desk.header

    run(scenario())


def test_a_silent_engine_gives_a_504() -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.respond(UpstreamTimeoutError("no response within 600 s"))
        desk.check(504, "upstream_timeout", RequestOutcome.UPSTREAM_ERROR)

    run(scenario())


def test_an_engine_that_broke_in_an_sse_answer_gives_an_error_event_and_a_broken_end() -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.begin_answer(SSE)
        desk.line.sent.clear()
        await desk.respond(UpstreamClosedError("closed the connection"))
        (event,) = desk.line.sent
        assert event["more_body"]
        assert event_error(event["body"])["code"] == "upstream_closed"
        assert desk.line.ended == ["close"]
        assert desk.visit.outcome is RequestOutcome.UPSTREAM_ERROR
        assert (desk.visit.status, desk.visit.reason) == (200, "upstream_closed")

    run(scenario())


def test_in_a_stream_of_anthropics_form_the_error_event_has_the_name_that_its_sdks_wait_for() -> (
    None
):
    async def scenario() -> None:
        desk = Desk()
        desk.visit.route = Route("messages", Access.GATED, RequestShape.MESSAGES)
        await desk.begin_answer(SSE)
        desk.line.sent.clear()
        await desk.respond(UpstreamClosedError("closed the connection"))
        (event,) = desk.line.sent
        name, data = event["body"].strip().split(b"\n")
        assert name == b"event: error"
        told = json.loads(data.removeprefix(b"data: "))
        assert (told["type"], told["error"]["code"]) == ("error", "upstream_closed")
        assert desk.line.ended == ["close"]

    run(scenario())


def test_an_engine_that_broke_in_any_other_answer_gives_a_broken_end_only() -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.begin_answer((b"content-type", b"application/json"))
        desk.line.sent.clear()
        await desk.respond(UpstreamClosedError("closed the connection"))
        assert list(desk.line.sent) == []
        assert desk.line.ended == ["close"]

    run(scenario())


def test_a_client_that_left_is_told_nothing() -> None:
    async def scenario() -> None:
        desk = Desk()
        desk.visit.engine_answered(200)
        await desk.respond(Interrupted(Interruption.CLIENT_GONE))
        assert list(desk.line.sent) == []
        assert desk.visit.outcome is RequestOutcome.ABANDONED

    run(scenario())


def test_a_client_that_the_server_hung_up_on_was_refused() -> None:
    async def scenario() -> None:
        desk = Desk()
        desk.line.refusal = ConnectionRefusal(400, "bad_request")
        await desk.respond(Interrupted(Interruption.CLIENT_GONE))
        assert list(desk.line.sent) == []
        assert desk.visit.outcome is RequestOutcome.REJECTED
        assert (desk.visit.status, desk.visit.reason) == (400, "bad_request")

    run(scenario())


def test_a_request_that_outlived_the_drain_is_answered_if_it_was_not_yet() -> None:
    async def scenario() -> None:
        desk = Desk(draining=True)
        await desk.respond(Interrupted(Interruption.DRAIN_ENDED))
        desk.check(503, "draining", RequestOutcome.SHED)
        assert desk.sheds == [Reason.DRAINING]
        assert desk.header[b"connection"] == b"close"
        assert desk.header[b"retry-after"] == b"7"

    run(scenario())


def test_a_stream_that_outlived_the_drain_is_broken_off_with_an_event() -> None:
    async def scenario() -> None:
        desk = Desk(draining=True)
        await desk.begin_answer(SSE)
        desk.line.sent.clear()
        await desk.respond(Interrupted(Interruption.DRAIN_ENDED))
        assert event_error(desk.line.sent[0]["body"])["code"] == "draining"
        assert desk.sheds == [Reason.DRAINING]
        assert desk.line.ended == ["close"]
        assert desk.visit.outcome is RequestOutcome.SHED

    run(scenario())


def test_a_crash_is_logged_with_its_request_and_answered_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.respond(RuntimeError("secret of the inside"))
        desk.check(500, "internal_error", RequestOutcome.UPSTREAM_ERROR)
        assert b"secret" not in desk.line.sent.body

    run(scenario())
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "req-1" in record.getMessage()
    assert record.exc_info is not None


def test_a_crash_in_the_middle_of_an_answer_breaks_it_off() -> None:
    async def scenario() -> None:
        desk = Desk()
        await desk.begin_answer(SSE)
        desk.line.sent.clear()
        await desk.respond(RuntimeError("secret of the inside"))
        assert event_error(desk.line.sent[0]["body"])["code"] == "internal_error"
        assert desk.line.ended == ["close"]

    run(scenario())


@pytest.mark.parametrize(
    ("route", "is_timed"), [(GATED, True), (OPEN, False), (UNKNOWN_ROUTE, False)]
)
def test_server_timing_is_for_gated_routes(route: Route, is_timed: bool) -> None:
    async def scenario() -> None:
        desk = Desk()
        desk.visit.route = route
        await desk.respond(Refusal(error_table.UNKNOWN_PATH))
        timing = desk.header.get(b"server-timing")
        assert timing == (b"queue;dur=0.0" if is_timed else None)

    run(scenario())


def test_while_draining_every_answer_closes_its_connection() -> None:
    async def scenario() -> None:
        desk = Desk(draining=True)
        await desk.respond(Refusal(error_table.UNKNOWN_PATH))
        desk.check(404, "unknown_path", RequestOutcome.REJECTED)
        assert desk.header[b"connection"] == b"close"

    run(scenario())


def test_an_upload_that_is_refused_is_read_on_before_its_connection_closes() -> None:
    async def scenario() -> None:
        desk = Desk(body_read=False)
        loop = asyncio.get_running_loop()
        loop.call_later(1, desk.line.client.body, b"the rest")
        await desk.respond(Refusal(error_table.body_too_large(10)))
        desk.check(413, "body_too_large", RequestOutcome.REJECTED)
        assert (now(), desk.line.ended) == (1, [])

    run(scenario())


def test_so_is_one_whose_connection_is_not_kept() -> None:
    async def scenario() -> None:
        desk = Desk(body_read=False)
        desk.line.ends_before_body = True
        asyncio.get_running_loop().call_later(1, desk.line.client.body, b"the rest")
        await desk.respond(Rejected(FACTS))
        desk.check(503, "queue_full", RequestOutcome.SHED)
        assert desk.header[b"connection"] == b"close"
        assert (now(), desk.line.ended) == (1, [])

    run(scenario())


def test_an_upload_that_does_not_end_is_dropped_after_two_seconds() -> None:
    async def scenario() -> None:
        desk = Desk(body_read=False)
        await desk.respond(Refusal(error_table.body_too_large(10)))
        assert (now(), desk.line.ended) == (2, ["abort"])
        assert error_of(desk.line.sent.body)["code"] == "body_too_large"
        assert desk.visit.outcome is RequestOutcome.REJECTED

    run(scenario())


@pytest.mark.parametrize(("body_read", "closes"), [(False, True), (True, False)])
def test_a_refused_expectation_costs_the_connection(body_read: bool, closes: bool) -> None:
    """Nobody can tell whether the body still comes, nor where the next request begins."""

    async def scenario() -> None:
        desk = Desk(body_read=body_read)
        desk.visit.headers.expects_continue = True
        desk.line.client.body()
        await desk.respond(Rejected(FACTS))
        assert (b"connection" in desk.header) is closes

    run(scenario())


def test_retry_headers_are_for_a_wait_that_nobody_can_tell() -> None:
    async def scenario() -> None:
        desk = Desk()
        headers = desk.responder.retry_headers()
        assert headers == [(b"retry-after", b"7"), (b"retry-after-ms", b"6500")]
        assert desk.waits == [math.inf]

    run(scenario())


@pytest.mark.parametrize(
    "error",
    [
        *(
            Rejected(ON_ARRIVAL._replace(reason=reason))
            for reason in Reason
            if reason is not Reason.DRAINING
        ),
        Rejected(ON_ARRIVAL._replace(may_retry=True)),
        Rejected(FACTS),  # it has waited
        Refusal(error_table.UNKNOWN_PATH),
    ],
)
@pytest.mark.parametrize("overload_status", [429, 503])
def test_what_is_answered_at_once_is_what_would_be_sent(
    error: Exception, overload_status: int
) -> None:
    async def scenario() -> None:
        sent, at_once = (Desk(body_read=False, overload_status=overload_status) for _ in range(2))
        await sent.respond(error)
        written = at_once.responder.answer_at_once(at_once.visit, error)
        assert written is not None
        status, fields = parsed_head(written.head)
        assert (status, fields) == (sent.line.sent.status, sent.header)
        assert written.body == sent.line.sent.body
        assert told(sent.visit) == told(at_once.visit)

    run(scenario())


def parsed_head(head: bytes) -> tuple[int, dict[bytes, bytes]]:
    status_line, *lines, nothing = head.split(b"\r\n")
    assert nothing == b""
    return int(status_line.split()[1]), dict(line.split(b": ", 1) for line in lines)


def told(visit: Visit) -> tuple[object, ...]:
    """What the records will say of the answer."""
    return visit.status, visit.reason, visit.outcome, visit.time_in_queue_s


@pytest.mark.parametrize(
    ("error", "draining"),
    [
        (Refusal(error_table.body_too_large(9)), False),
        (Refusal(error_table.UNKNOWN_PATH), True),
        (ValueError("a mistake of ours"), False),
    ],
)
def test_what_ends_its_connection_or_is_our_failure_is_not_answered_at_once(
    error: Exception, draining: bool
) -> None:
    async def scenario() -> None:
        desk = Desk(draining=draining)
        assert desk.responder.answer_at_once(desk.visit, error) is None
        assert desk.visit.status == 0

    run(scenario())

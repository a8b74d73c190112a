"""The request path, outermost: from a request's head to its last response byte, on one screen.

A pure ASGI callable that wraps the FastAPI application: a router or a middleware in front of it
would cost a third of the throughput. What is neither forwarded nor refused falls through to it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.admission.request import AdmissionRequest
from proxy.edge import error_table
from proxy.edge.answers import CLOSE, Refusal, server_timing
from proxy.edge.client_connection import client_connection
from proxy.edge.client_watch import ClientWatch
from proxy.edge.intake import BodyTimeoutError, BodyTooLargeError
from proxy.edge.large_body import let_go, measure_large
from proxy.edge.request_headers import RequestHeaders, new_request_id
from proxy.edge.routes import Access
from proxy.edge.token_meter import UsageReader
from proxy.edge.visit import Visit
from proxy.openai_api.measure import UnreadableBodyError, measure
from proxy.telemetry.request_outcome import RequestOutcome
from proxy.upstream.errors import UpstreamConnectError, UpstreamError
from proxy.upstream.header_rules import has_field, request_headers, response_headers
from proxy.upstream.port import UpstreamRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    from proxy.admission.controller import AdmissionController
    from proxy.admission.permit import Permit
    from proxy.edge.affinity import Affinity
    from proxy.edge.client_watch import LateListeners
    from proxy.edge.doorman import Doorman
    from proxy.edge.drain import Drain
    from proxy.edge.engine import Engine
    from proxy.edge.entrance import WrittenAnswer
    from proxy.edge.intake import Intake
    from proxy.edge.open_places import OpenPlaces
    from proxy.edge.open_routes import OpenRoutes
    from proxy.edge.records import Records
    from proxy.edge.responder import Responder
    from proxy.edge.token_meter import AnswerReader, TokenMeter
    from proxy.openai_api.blocks import Blocks
    from proxy.telemetry.trace_context import Tracing
    from proxy.upstream.port import RawHeaders, UpstreamResponse

LOCAL_PATHS = frozenset({b"/healthz", b"/readyz"})
"""Served by the wrapped application, without a key: probes have none."""

_ENGINE_FAILED = frozenset({RequestOutcome.UPSTREAM_ERROR, RequestOutcome.UPSTREAM_OVERLOADED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """Decides for every request on the public listener: refuse, serve locally, or forward."""

    local_app: ASGIApp
    doorman: Doorman
    intake: Intake
    token_meter: TokenMeter | None
    reads_usage: bool
    """Whether the engine's counts of tokens are wanted for the records, token meter or not."""
    max_seats_per_request: int | None
    controller: AdmissionController
    engines: Mapping[str, Engine]
    open_routes: OpenRoutes
    open_places: OpenPlaces
    affinity: Affinity
    drain: Drain
    responder: Responder
    records: Records
    loop: asyncio.AbstractEventLoop
    late_listeners: LateListeners
    tracing: Tracing | None
    clock: Callable[[], float]
    """For measuring; uvloop's own time() counts whole milliseconds, which is enough to wait by."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _close_websocket(scope, send)
        elif scope["raw_path"] in LOCAL_PATHS:
            await self.local_app(scope, receive, send)
        else:
            visit = self._visit(scope, receive, send)
            await self._handle(visit, self._objection(visit))

    def enter(self, scope: Scope, receive: Receive, send: Send) -> WrittenAnswer | ASGIApp:
        """As a call, but what can be answered at once is (see proxy.edge.entrance)."""
        if scope["raw_path"] in LOCAL_PATHS:
            return self
        visit = self._visit(scope, receive, send)
        objection = self._objection(visit)
        if objection is not None:
            answer = self.responder.answer_at_once(visit, objection)
            if answer is not None:
                self.records.finished(visit, self.clock())
                return answer
        return lambda *_: self._handle(visit, objection)

    def _visit(self, scope: Scope, receive: Receive, send: Send) -> Visit:
        visit = Visit(scope, receive, send, self.clock)
        if self.tracing is not None:
            visit.trace = self.tracing.begin(scope["headers"])
        return visit

    def _objection(self, visit: Visit) -> Exception | None:
        try:
            return self.doorman.objection(visit)
        except Exception as error:  # noqa: BLE001  # the responder answers for every one of them
            if not visit.headers.request_id:  # the client is told to look for it
                visit.headers = RequestHeaders(new_request_id())
            return error

    async def _handle(self, visit: Visit, objection: Exception | None) -> None:
        try:
            error = await self._serve(visit) if objection is None else objection
            if error is not None:
                await self.responder.respond(visit, error)
                _untie(error)
        finally:
            self.records.finished(visit, self.clock())

    async def _serve(self, visit: Visit) -> Exception | None:
        """What ended the request's way too early, to be answered for; None if nothing did."""
        try:
            await self._forward(visit)
        except asyncio.CancelledError:  # by the server, whatever had been sent by then
            visit.outcome = RequestOutcome.ABANDONED
            raise
        except Exception as error:  # noqa: BLE001  # the responder answers for every one of them
            return error
        return None

    # From the body to the engine ---------------------------------------------------------------

    async def _forward(self, visit: Visit) -> None:
        async with ClientWatch(visit.receive, self.late_listeners) as watch:
            self.drain.enter(watch)
            body: bytes | Blocks = b""
            try:
                body = await self._read_body(visit)
                watch.body_received()
                if visit.route.access is Access.GATED:
                    request = await self._admission_request(visit, body)
                    visit.asked_at = self.clock()
                    async with self.controller.admit(request) as permit:
                        is_seen = await self._use(permit, visit, watch, body)
                    if not is_seen:
                        await self._move(request, visit, watch, body)
                else:
                    await self._pass(visit, watch, body)
            finally:
                self.drain.leave(watch)
                if not isinstance(body, bytes):
                    let_go(body.blocks, self.loop)

    async def _read_body(self, visit: Visit) -> bytes | Blocks:
        try:
            connection = client_connection(visit.scope)
            whole = connection.take_whole_body() if connection is not None else None
            body: bytes | Blocks
            if whole is not None:
                body = self.intake.accept(whole)
            else:
                body = await self.intake.read(visit.receive, visit.headers.content_length)
        except BodyTooLargeError:
            raise Refusal(error_table.body_too_large(self.intake.max_body_bytes)) from None
        except BodyTimeoutError as late:
            answer = error_table.body_timeout(self.intake.body_timeout_s, late.received)
            raise Refusal(answer) from None
        visit.body_read = True
        visit.request_bytes = len(body)
        return body

    async def _admission_request(self, visit: Visit, body: bytes | Blocks) -> AdmissionRequest:
        shape, content_type = visit.route.shape, visit.headers.content_type
        try:
            if isinstance(body, bytes):
                measured = measure(shape, content_type, body)
            else:
                measured = await measure_large(shape, content_type, body)
        except UnreadableBodyError as error:
            raise Refusal(error_table.bad_request(str(error))) from None
        if measured.background:
            raise Refusal(error_table.BACKGROUND)
        most = self.max_seats_per_request
        if most is not None and measured.seats > most:
            raise Refusal(error_table.too_many_sequences(measured.seats, most))
        visit.measured = measured
        prompt_tokens, kv_tokens = 0, 0
        if self.token_meter is not None:
            too_long_for = self.token_meter.exceeded_length(measured)
            if too_long_for is not None:
                longest = measured.longest_prompt_token_ids or 0
                raise Refusal(error_table.context_length_exceeded(longest, too_long_for))
            prompt_tokens, kv_tokens = self.token_meter.tokens(measured)
            visit.prompt_tokens_estimate = prompt_tokens
        return AdmissionRequest(
            seats=measured.seats,
            deadline=self.loop.time() + self.doorman.longest_wait_s(visit.headers),
            prompt_tokens=prompt_tokens,
            kv_tokens=kv_tokens,
            tenant=visit.headers.tenant,
            priority=visit.headers.priority,
            attempt=visit.headers.attempt,
            model=measured.model,
            affinity=self.affinity(visit.headers, body),
        )

    async def _pass(self, visit: Visit, watch: ClientWatch, body: bytes | Blocks) -> None:
        """What takes no seat."""
        page = self.open_routes.page(visit)
        if page is None:
            with self.open_places.take(visit.route, len(body)):
                engine = await self.open_routes.engine(visit, body)
                with self.open_places.at(engine.open_requests, visit.route):
                    await self._exchange(visit, watch, engine, body)
        else:
            watch.stop_listening()
            await self.responder.give(visit, page)

    # From the permit to the last byte ----------------------------------------------------------

    async def _use(
        self,
        permit: Permit,
        visit: Visit,
        watch: ClientWatch,
        body: bytes | Blocks,
        *,
        may_move: bool = True,
    ) -> bool:
        """False when the engine could not even be connected to and others are there: it has seen
        nothing of the request."""
        visit.time_in_queue_s = (visit.time_in_queue_s or 0.0) + permit.time_in_queue_s
        is_complete = False
        engine = self.engines[permit.upstream]
        answer = visit.relay.followed_by = self._reader_for(visit, permit)
        try:
            await self._exchange(visit, watch, engine, body)
            is_complete = True
        except UpstreamError as error:
            # Before the seat is free, which the next would get in an engine that is to be left.
            engine.report(error)
            permit.drop()
            unseen = isinstance(error, UpstreamConnectError) and not error.is_ours
            if unseen and may_move and self.controller.is_replaceable(engine.name):
                return False
            raise
        finally:
            # Also when the client has left: the engine has counted the prompt. Not when the engine
            # refused the request: it has read none. (What broke off later is OK by its status.)
            if answer is not None and visit.outcome is RequestOutcome.OK:
                visit.usage = answer.ended(is_complete)
        engine.report(visit.status if visit.status >= 500 else None)
        if visit.outcome in _ENGINE_FAILED:
            permit.drop()
        else:
            permit.complete()
        return True

    async def _move(
        self, request: AdmissionRequest, visit: Visit, watch: ClientWatch, body: bytes | Blocks
    ) -> None:
        """To another engine, in the queue's order; each that fails is taken out by then."""
        request = request._replace(readmitted=True)
        for left in reversed(range(max(len(self.engines) - 1, 1))):
            async with self.controller.admit(request) as permit:
                if await self._use(permit, visit, watch, body, may_move=left > 0):
                    return

    def _reader_for(self, visit: Visit, permit: Permit) -> AnswerReader | None:
        if self.token_meter is not None:
            return self.token_meter.follow(visit.measured, permit)
        return UsageReader() if self.reads_usage else None

    async def _exchange(
        self, visit: Visit, watch: ClientWatch, engine: Engine, body: bytes | Blocks
    ) -> None:
        visit.upstream = engine.name
        async with engine.upstream.exchange(self._request(visit, engine, body)) as response:
            visit.engine_answered(response.status)
            headers = self._answer_headers(visit, response)
            await visit.relay.pass_on(response, headers, watch.stop_listening, engine.life_sign)
            watch.stop_listening()

    def _answer_headers(self, visit: Visit, response: UpstreamResponse) -> RawHeaders:
        headers = response_headers(
            response.headers, request_id=visit.headers.request_id, status=response.status
        )
        if visit.time_in_queue_s is not None:
            headers.append(server_timing(visit.time_in_queue_s))
        if response.status == 503 and not has_field(headers, b"retry-after"):
            headers += self.responder.retry_headers()
        if self.drain.begun:
            headers.append(CLOSE)
        return headers

    def _request(self, visit: Visit, engine: Engine, body: bytes | Blocks) -> UpstreamRequest:
        scope = visit.scope
        headers = request_headers(
            scope["headers"],
            authority=engine.address.authority,
            request_id=visit.headers.request_id,
            upstream_authorization=engine.authorization,
            client_is_authenticated=visit.authenticated,
        )
        return UpstreamRequest(
            method=scope["method"],
            target=engine.address.target(scope["raw_path"], scope["query_string"]),
            headers=headers if visit.trace is None else visit.trace.passed_on(headers),
            body=body,
        )


def _untie(error: BaseException) -> None:
    """Takes the traceback off an error that is dealt with.

    Whoever raises an error that it holds in a variable ties a knot (error, traceback, frame, error)
    with the whole request in it, which only the collector could undo: ten thousand refusals a
    second would be as much work for it.
    """
    knot: BaseException | None = error
    while knot is not None:
        knot.__traceback__ = None
        knot = knot.__cause__ or knot.__context__


async def _close_websocket(scope: Scope, send: Send) -> None:
    """uvicorn is told to know no WebSocket; another server may offer one. Nothing is gated there
    yet, so nothing passes."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": "not served here"})

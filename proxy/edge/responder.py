"""Gives every request that the engine did not answer its own answer, or its honest break."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from proxy.admission.outcome import Reason, Refused
from proxy.edge import error_table
from proxy.edge.answers import (
    CLOSE,
    OwnAnswer,
    Refusal,
    WholeAnswer,
    send_answer,
    send_answer_and_linger,
    send_whole,
    server_timing,
    whole_answer,
)
from proxy.edge.client_connection import client_connection
from proxy.edge.client_watch import Interrupted, Interruption
from proxy.edge.intake import IntakeFullError
from proxy.edge.open_places import OpenFullError
from proxy.edge.open_routes import NoEngineError
from proxy.edge.refusal_forms import RefusalForms
from proxy.edge.routes import Access
from proxy.openai_api.measure import RequestShape
from proxy.openai_api.sse import anthropic_error_event, error_event
from proxy.telemetry.request_outcome import RequestOutcome
from proxy.upstream.errors import UpstreamError

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.admission.outcome import RefusalFacts
    from proxy.admission.retry_after import RetryAfter
    from proxy.edge.answers import RawHeaders
    from proxy.edge.entrance import WrittenAnswer
    from proxy.edge.visit import Visit

_log = logging.getLogger("sluice.gateway")

# After a refused upload: time for the client to read the answer before the connection goes.
_LINGER_S = 2.0


class Responder:
    """`retry_after` gives a fresh, jittered value for an expected wait in seconds; `invite_back`
    says whether a client that the core has not judged may be told to come back;
    `engine_state` says in words why the engines of a model cannot be used; `draining` whether we
    are leaving; `shed` counts a refusal that the admission controller did not make.
    """

    def __init__(
        self,
        *,
        overload_status: int,
        write_timeout_s: float,
        retry_after: Callable[[float], RetryAfter],
        invite_back: Callable[[], bool],
        engine_state: Callable[[str | None], str],
        draining: Callable[[], bool],
        shed: Callable[[Reason], None],
    ) -> None:
        self._overload_status = overload_status
        self._forms = RefusalForms(overload_status)
        self._write_timeout_s = write_timeout_s
        self._retry_after = retry_after
        self._invite_back = invite_back
        self._engine_state = engine_state
        self._draining = draining
        self._shed = shed

    def retry_headers(self, expected_wait_s: float = math.inf) -> list[tuple[bytes, bytes]]:
        """Retry-After in both units, jittered; by default for a wait that nobody can tell."""
        return error_table.retry_headers(self._retry_after(expected_wait_s))

    async def give(self, visit: Visit, page: bytes) -> None:
        """A page of JSON that the gateway has and no engine is asked for."""
        visit.engine_answered(200)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(page)),
            (b"x-request-id", visit.headers.request_id),
        ]
        if self._draining():
            headers.append(CLOSE)
        await send_whole(visit.send, WholeAnswer(200, headers, page))

    async def respond(self, visit: Visit, error: Exception) -> None:
        """Answers for whatever ended the request's way. Any exception may come here."""
        match error:
            case Refusal():
                await self._answer(visit, error.answer, RequestOutcome.REJECTED)
            case Refused():
                retry_after = self._retry_after(error.facts.expected_wait_s)
                answer = self._refused(visit, error.facts, retry_after)
                await self._answer(visit, answer, RequestOutcome.SHED)
            case IntakeFullError() | OpenFullError():
                self._shed(Reason.QUEUE_FULL)
                await self._answer(visit, self._no_room(error), RequestOutcome.SHED)
            case NoEngineError():
                self._shed(Reason.UPSTREAM_UNAVAILABLE)
                why, retry_after = self._engine_state(None), self._retry_after(math.inf)
                no_engine = error_table.no_engine(why, retry_after)
                await self._answer(visit, no_engine, RequestOutcome.SHED)
            case UpstreamError():
                await self._engine_failed(visit, error)
            case Interrupted():
                await self._interrupted(visit, error.interruption)
            case _:
                await self._crashed(visit, error)

    def answer_at_once(self, visit: Visit, error: Exception) -> WrittenAnswer | None:
        """For a request whose client keeps its connection, and did not ask before its body.

        None if only respond() will do: the connection ends after the answer, or we have failed.
        """
        if self._draining():
            return None
        if isinstance(error, Refused):
            return self._refused_at_once(visit, error.facts)
        if isinstance(error, Refusal):
            return self._write(visit, error.answer, RequestOutcome.REJECTED)
        return None

    def _refused_at_once(self, visit: Visit, facts: RefusalFacts) -> WrittenAnswer | None:
        retry_after = self._retry_after(facts.expected_wait_s)
        form = self._forms.find(facts, retry_after)
        if form is None:
            answer = self._refused(visit, facts, retry_after)
            return self._write(visit, answer, RequestOutcome.SHED)
        visit.time_in_queue_s = facts.time_in_queue_s
        visit.status, visit.reason = form.status, form.code
        visit.outcome = RequestOutcome.SHED
        return form.fill(retry_after, visit.headers.request_id)

    def _no_room(self, error: IntakeFullError | OpenFullError) -> OwnAnswer:
        again = self._overload_status, self._retry_after(math.inf)
        if isinstance(error, IntakeFullError):
            return error_table.intake_full(error.most, *again, self._invite_back())
        return error_table.open_full(error.most, error.is_of_bytes, *again, error.invites)

    def _write(
        self, visit: Visit, answer: OwnAnswer, outcome: RequestOutcome
    ) -> WrittenAnswer | None:
        if answer.close:
            return None
        return whole_answer(answer, self._note(visit, answer, outcome)).written()

    def _refused(self, visit: Visit, facts: RefusalFacts, retry_after: RetryAfter) -> OwnAnswer:
        if visit.time_in_queue_s:  # it had a seat before, in an engine that was gone
            waited_s = visit.time_in_queue_s + facts.time_in_queue_s
            facts = facts._replace(time_in_queue_s=waited_s)
        visit.time_in_queue_s = facts.time_in_queue_s
        return error_table.refused(
            facts,
            self._overload_status,
            retry_after,
            lambda: self._engine_state(visit.measured.model),
        )

    async def _engine_failed(self, visit: Visit, error: UpstreamError) -> None:
        answer = error_table.upstream_failed(error)
        _log.warning(
            "engine failed: %s (request %s, %s)",
            error,
            visit.headers.request_id.decode("ascii"),
            "answer broken off" if visit.relay.started else f"answered {answer.status}",
        )
        if visit.relay.started:
            visit.outcome = RequestOutcome.UPSTREAM_ERROR
            await self._break_off(visit, answer)
        else:
            await self._answer(visit, answer, RequestOutcome.UPSTREAM_ERROR)

    async def _interrupted(self, visit: Visit, interruption: Interruption) -> None:
        if interruption is Interruption.DRAIN_ENDED:
            if visit.relay.is_complete:
                return  # in the very step in which the drain ended
            self._shed(Reason.DRAINING)
            if visit.relay.started:
                visit.outcome = RequestOutcome.SHED
                await self._break_off(visit, error_table.DRAIN_ENDED)
            else:
                answer = error_table.drain_ended(self._retry_after(math.inf), self._invite_back())
                await self._answer(visit, answer, RequestOutcome.SHED)
            return
        refusal = visit.relay.refusal
        if refusal is None:
            visit.outcome = RequestOutcome.ABANDONED
        else:  # it is we who hung up
            visit.status, visit.reason = refusal.status, refusal.code
            visit.outcome = RequestOutcome.REJECTED

    async def _crashed(self, visit: Visit, error: Exception) -> None:
        _log.error(
            "request %s failed inside the gateway",
            visit.headers.request_id.decode("ascii"),
            exc_info=error,
        )
        if visit.relay.started:
            visit.outcome = RequestOutcome.UPSTREAM_ERROR
            await self._break_off(visit, error_table.INTERNAL_ERROR)
        else:
            await self._answer(visit, error_table.INTERNAL_ERROR, RequestOutcome.UPSTREAM_ERROR)

    async def _break_off(self, visit: Visit, answer: OwnAnswer) -> None:
        visit.reason = answer.code
        last_words = b""
        if visit.relay.speaks_sse:
            is_anthropic = visit.route.shape is RequestShape.MESSAGES
            say = anthropic_error_event if is_anthropic else error_event
            last_words = say(answer.message, answer.type, answer.code)
        await visit.relay.break_off(visit.receive, last_words, self._write_timeout_s)

    def _note(self, visit: Visit, answer: OwnAnswer, outcome: RequestOutcome) -> RawHeaders:
        """Writes down what the client is told; returns the headers that are the visit's own."""
        visit.status = answer.status
        visit.outcome = outcome
        visit.reason = answer.code
        headers = [(b"x-request-id", visit.headers.request_id)]
        if visit.route.access is Access.GATED:
            headers.append(server_timing(visit.time_in_queue_s or 0.0))
        return headers

    async def _answer(self, visit: Visit, answer: OwnAnswer, outcome: RequestOutcome) -> None:
        headers = self._note(visit, answer, outcome)
        # After a refused `Expect: 100-continue` nobody can tell whether the body still comes, and
        # so where the next request begins.
        asked_first = visit.headers.expects_continue and not visit.body_read
        connection = client_connection(visit.scope)
        too_soon = connection is not None and connection.ends_before_body
        if not (answer.close or asked_first or too_soon or self._draining()):
            await send_answer(visit.send, answer, headers)
        elif visit.body_read:
            await send_answer(visit.send, answer, [*headers, CLOSE])
        else:
            await self._answer_and_linger(visit, answer, [*headers, CLOSE])

    async def _answer_and_linger(
        self, visit: Visit, answer: OwnAnswer, headers: list[tuple[bytes, bytes]]
    ) -> None:
        try:
            async with asyncio.timeout(_LINGER_S):
                await send_answer_and_linger(visit.send, visit.receive, answer, headers)
        except TimeoutError:
            await visit.relay.drop(visit.receive)

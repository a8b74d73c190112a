"""One request's way through the gateway: what it was, what became of it, for the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.edge.relay import Relay
from proxy.edge.request_headers import RequestHeaders
from proxy.edge.routes import UNKNOWN_ROUTE
from proxy.openai_api.measure import Measured
from proxy.telemetry.request_outcome import RequestOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from proxy.openai_api.usage import Usage
    from proxy.telemetry.trace_context import TraceContext


_NOT_READ = RequestHeaders(b"")
_NOT_MEASURED = Measured(seats=0)


class Visit:
    """Mutable on purpose: every stage writes down what it learned. Times in seconds on `clock`.

    The outcome starts as abandoned, which is what it is when the task is cancelled from outside
    before any stage has said otherwise.
    """

    __slots__ = (
        "arrived_at",
        "asked_at",
        "authenticated",
        "body_read",
        "headers",
        "measured",
        "outcome",
        "prompt_tokens_estimate",
        "reason",
        "receive",
        "relay",
        "request_bytes",
        "route",
        "scope",
        "send",
        "status",
        "time_in_queue_s",
        "trace",
        "upstream",
        "usage",
    )

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, clock: Callable[[], float]
    ) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.arrived_at = clock()
        self.relay = Relay(scope, send, clock)
        self.headers = _NOT_READ
        self.route = UNKNOWN_ROUTE
        self.authenticated = False
        self.body_read = False
        self.outcome = RequestOutcome.ABANDONED
        self.status = 0
        self.reason = ""
        self.measured = _NOT_MEASURED
        self.prompt_tokens_estimate: int | None = None
        self.request_bytes = 0
        self.asked_at: float | None = None
        """When it asked for seats; None if it never did."""
        self.time_in_queue_s: float | None = None
        self.trace: TraceContext | None = None
        self.upstream = ""
        self.usage: Usage | None = None
        """The engine's own count of tokens, where it told it and somebody wants it."""

    def engine_answered(self, status: int) -> None:
        """The outcome by the engine's status; a body that breaks off later overrules it."""
        self.status = status
        self.outcome = _outcome_of(status)


def _outcome_of(status: int) -> RequestOutcome:
    if status < 400:
        return RequestOutcome.OK
    if status in (429, 503):
        return RequestOutcome.UPSTREAM_OVERLOADED
    return RequestOutcome.CLIENT_ERROR if status < 500 else RequestOutcome.UPSTREAM_ERROR

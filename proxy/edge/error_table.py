"""Every refusal and failure, turned into the answer the client gets: docs/errors.md as code.

A message says which limit it was, its value, the measured value and how long the request waited,
so that whoever reads it in a client's log needs no second place to look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.admission.outcome import Load, Reason, RefusalFacts
from proxy.edge.answers import OwnAnswer
from proxy.edge.connection_cap import Bound
from proxy.openai_api.errors import ErrorCode, ErrorType
from proxy.upstream.errors import UpstreamError, UpstreamTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.admission.retry_after import RetryAfter
    from proxy.edge.connection_cap import ConnectionCap

_DRAIN_ENDED = (
    "This gateway is shutting down and the request did not finish within SLUICE_DRAIN_TIMEOUT."
)


_ALWAYS_503 = frozenset({Reason.UPSTREAM_UNAVAILABLE, Reason.UPSTREAM_STALLED, Reason.DRAINING})


RETRY_AFTER_MS = b"retry-after-ms"


def retry_headers(retry_after: RetryAfter) -> list[tuple[bytes, bytes]]:
    return [
        (b"retry-after", b"%d" % retry_after.seconds),
        (RETRY_AFTER_MS, b"%d" % retry_after.milliseconds),
    ]


def should_retry(may_retry: bool) -> tuple[bytes, bytes]:
    """What the OpenAI SDKs obey before they look at anything else."""
    return b"x-should-retry", b"true" if may_retry else b"false"


def refused(
    facts: RefusalFacts,
    overload_status: int,
    retry_after: RetryAfter,
    engine_state: Callable[[], str],
) -> OwnAnswer:
    """The answer to a request that the core turned away or evicted.

    `engine_state` says in words why no engine can be used; asked where the reason needs it.
    """
    status, type_ = overload_status, ErrorType.SERVICE_UNAVAILABLE
    if facts.reason in _ALWAYS_503:
        status = 503
    elif facts.reason is Reason.TENANT_LIMIT:
        status = 429
    if status == 429:
        type_ = ErrorType.RATE_LIMIT
    return OwnAnswer(
        status=status,
        type=type_,
        code=facts.reason.value,
        message=_explain(facts, engine_state, retry_after.seconds),
        headers=(*retry_headers(retry_after), should_retry(facts.may_retry)),
        close=facts.reason is Reason.DRAINING,
    )


def _explain(facts: RefusalFacts, engine_state: Callable[[], str], retry_after_s: int) -> str:
    load = _taken(facts.load)
    waited = f"The request waited {facts.time_in_queue_s:.2f} s"
    again = _again(facts.may_retry, retry_after_s)
    several = facts.load.upstreams > 1
    match facts.reason:
        case Reason.QUEUE_FULL:
            busy = "The engines are busy" if several else "The engine is busy"
            return f"{busy} and the queue is full: {load}. {waited}; {again}"
        case Reason.QUEUE_TIMEOUT:
            return f"No seat came free in time: {load}. {waited}, the longest it may; {again}"
        case Reason.DEADLINE_UNREACHABLE:
            return (
                f"The request cannot be served in time: it would wait about "
                f"{facts.expected_wait_s:.1f} s and may wait {facts.may_wait_s:.1f} s; {load}. "
                f"{waited}; {again}"
            )
        case Reason.RETRY_BUDGET_EXHAUSTED:
            return (
                f"This is a retry, the retries that were invited have come, and while the queue is "
                f"more than half full first attempts go before: {load}. {waited}; {again}"
            )
        case Reason.TENANT_LIMIT:
            engines = "engines" if several else "engine"
            return f"This client uses its share of the {engines}: {load}. {waited}; {again}"
        case Reason.DRAINING:
            return f"This gateway is draining and takes no new requests. {waited}; {again}"
        case Reason.UPSTREAM_UNAVAILABLE | Reason.UPSTREAM_STALLED:
            return f"No engine can serve the request now: {engine_state()}. {waited}; {again}"


def _taken(load: Load) -> str:
    of_engines = f" of {load.upstreams} engines" if load.upstreams > 1 else ""
    taken = f"{load.in_flight} of {load.limit} seats{of_engines}"
    if load.kv_limit is not None:
        taken += f", {load.kv_tokens} of {load.kv_limit} KV tokens"
    if load.prefill_limit is not None:
        taken += f", {load.prefill_tokens} of {load.prefill_limit} prefill tokens"
    places = f"{load.queue_depth} of {load.max_queue_depth} places in the queue"
    return f"{taken} are taken and {places}"


def _again(may_retry: bool, retry_after_s: int) -> str:
    if may_retry:
        return f"try again in about {retry_after_s} s."
    return f"do not retry by program now; there may be room in about {retry_after_s} s."


def intake_full(
    max_buffered_bytes: int, overload_status: int, retry_after: RetryAfter, may_retry: bool
) -> OwnAnswer:
    """Bodies being uploaded hold all the memory they may: a full queue by another measure."""
    full = (
        f"Too many request bodies are being uploaded at once: together they may hold "
        f"{max_buffered_bytes} bytes (places x SLUICE_MAX_BODY_BYTES)"
    )
    return _no_room(full, overload_status, retry_after, may_retry)._replace(close=True)


def no_engine(engine_state: str, retry_after: RetryAfter) -> OwnAnswer:
    """For what takes no seat, and would go to any engine."""
    again = _again(may_retry=False, retry_after_s=retry_after.seconds)
    return OwnAnswer(
        status=503,
        type=ErrorType.SERVICE_UNAVAILABLE,
        code=Reason.UPSTREAM_UNAVAILABLE.value,
        message=f"No engine can serve the request now: {engine_state}; {again}",
        headers=(*retry_headers(retry_after), should_retry(may_retry=False)),
    )


def open_full(
    most: int, of_bytes: bool, overload_status: int, retry_after: RetryAfter, may_retry: bool
) -> OwnAnswer:
    """For what takes no seat, and so waits for none."""
    if of_bytes:
        full = (
            f"The bodies of requests that take no seat, such as this, may hold {most} bytes "
            f"together (half of what uploads may, or one body), and there is no room for it"
        )
    else:
        full = (
            f"{most} requests that take no seat, such as this, are under way, as many as may be at "
            f"once"
        )
    return _no_room(full, overload_status, retry_after, may_retry)


def _no_room(
    full: str, overload_status: int, retry_after: RetryAfter, may_retry: bool
) -> OwnAnswer:
    return OwnAnswer(
        status=overload_status,
        type=ErrorType.RATE_LIMIT if overload_status == 429 else ErrorType.SERVICE_UNAVAILABLE,
        code=Reason.QUEUE_FULL.value,
        message=f"{full}; {_again(may_retry, retry_after.seconds)}",
        headers=(*retry_headers(retry_after), should_retry(may_retry)),
    )


def drain_ended(retry_after: RetryAfter, may_retry: bool) -> OwnAnswer:
    """Admitted, not answered by the engine yet, and the drain timeout is over."""
    return OwnAnswer(
        status=503,
        type=ErrorType.SERVICE_UNAVAILABLE,
        code=Reason.DRAINING.value,
        message=_DRAIN_ENDED,
        headers=(*retry_headers(retry_after), should_retry(may_retry)),
        close=True,
    )


def upstream_failed(error: UpstreamError) -> OwnAnswer:
    """The engine broke, or fell silent, before the first byte of its answer."""
    return OwnAnswer(
        status=504 if isinstance(error, UpstreamTimeoutError) else 502,
        type=ErrorType.UPSTREAM,
        code=error.code,
        message=f"The request failed at the engine: {error.what}",
    )


DRAIN_ENDED = OwnAnswer(503, ErrorType.SERVICE_UNAVAILABLE, Reason.DRAINING.value, _DRAIN_ENDED)

INVALID_API_KEY = OwnAnswer(
    401,
    ErrorType.INVALID_REQUEST,
    ErrorCode.INVALID_API_KEY,
    "No valid API key was given. Send it as 'Authorization: Bearer <key>'; "
    "the gateway's keys are set with SLUICE_API_KEYS.",
    headers=((b"www-authenticate", b"Bearer"),),
)

UNKNOWN_PATH = OwnAnswer(
    404,
    ErrorType.INVALID_REQUEST,
    ErrorCode.UNKNOWN_PATH,
    "This path is not served here. The gateway passes on the OpenAI-compatible routes only; "
    "others can be let through with SLUICE_EXPOSE.",
)

# Its answer ends at once while the engine goes on generating: the seat would be given back to
# others too early, and nobody could tell when it is free. vLLM refuses it too unless it is started
# with a store for responses.
BACKGROUND = OwnAnswer(
    400,
    ErrorType.INVALID_REQUEST,
    ErrorCode.BAD_REQUEST,
    "Responses with background=true are not served through the gateway, which could not tell how "
    "long they take up the engine. Ask for the response without it, or as a stream.",
)

INTERNAL_ERROR = OwnAnswer(
    500,
    ErrorType.SERVER,
    ErrorCode.INTERNAL_ERROR,
    "The gateway failed on this request; its log has the details under the request id.",
    close=True,
)


def method_not_allowed(method: str, allowed: tuple[str, ...]) -> OwnAnswer:
    return OwnAnswer(
        405,
        ErrorType.INVALID_REQUEST,
        ErrorCode.METHOD_NOT_ALLOWED,
        f"This path takes {', '.join(allowed)}, not {method[:32]}.",
        headers=((b"allow", ", ".join(allowed).encode("ascii")),),
    )


def body_too_large(max_body_bytes: int) -> OwnAnswer:
    return OwnAnswer(
        413,
        ErrorType.INVALID_REQUEST,
        ErrorCode.BODY_TOO_LARGE,
        f"The request body is larger than {max_body_bytes} bytes (SLUICE_MAX_BODY_BYTES).",
        close=True,
    )


def body_timeout(body_timeout_s: float, received: int) -> OwnAnswer:
    return OwnAnswer(
        408,
        ErrorType.INVALID_REQUEST,
        ErrorCode.BODY_TIMEOUT,
        f"The request body did not arrive within {body_timeout_s:g} s (SLUICE_BODY_TIMEOUT): "
        f"{received} bytes came.",
        close=True,
    )


def bad_request(message: str) -> OwnAnswer:
    return OwnAnswer(400, ErrorType.INVALID_REQUEST, ErrorCode.BAD_REQUEST, message)


def too_many_sequences(seats: int, max_seats: int) -> OwnAnswer:
    return OwnAnswer(
        400,
        ErrorType.INVALID_REQUEST,
        ErrorCode.TOO_MANY_SEQUENCES,
        f"The request asks for {seats} sequences at once (n or best_of times the number of "
        f"prompts); at most {max_seats} are allowed (SLUICE_MAX_SEATS_PER_REQUEST).",
    )


def too_many_connections(over: Bound, cap: ConnectionCap, retry_after: RetryAfter) -> OwnAnswer:
    """Not to be retried by program: what there are too many of already, it would make more."""
    if over is Bound.PER_ADDRESS:
        status, type_ = 429, ErrorType.RATE_LIMIT
        message = (
            f"There are {cap.max_per_address} connections from this address, as many as there "
            "may be (SLUICE_MAX_CONNECTIONS_PER_ADDRESS). Use those, or close some."
        )
    else:
        status, type_ = 503, ErrorType.SERVICE_UNAVAILABLE
        message = (
            f"There are {cap.max_connections} connections here, as many as there may be "
            "(SLUICE_MAX_CONNECTIONS, or what open files are allowed)."
        )
    return OwnAnswer(
        status,
        type_,
        ErrorCode.TOO_MANY_CONNECTIONS,
        message,
        headers=(*retry_headers(retry_after), should_retry(may_retry=False)),
        close=True,
    )


def context_length_exceeded(prompt_tokens: int, model_len: int) -> OwnAnswer:
    """Said only where it is certain: the prompt came as token ids, and they were counted."""
    return OwnAnswer(
        400,
        ErrorType.INVALID_REQUEST,
        ErrorCode.CONTEXT_LENGTH_EXCEEDED,
        f"This model's maximum context length is {model_len} tokens, and the prompt alone has "
        f"{prompt_tokens}. Shorten it.",
    )

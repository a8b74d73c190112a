"""What is known about a request when it is over: the one input of access log and trace file."""

from __future__ import annotations

import msgspec

from proxy.telemetry.request_outcome import RequestOutcome  # noqa: TC001 - msgspec reads the types
from proxy.telemetry.trace_context import TraceContext  # noqa: TC001 - msgspec reads the types


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request, from its arrival to its last byte. Times in seconds, sizes in bytes.

    It holds nothing that a client wrote but the request id: no path, no key, no model, no text.
    `arrived_wall_s` is Unix time, `arrived_at_s` a clock that never jumps. `status` is 0 when no
    answer was begun; `reason` is the code of Sluice's own answer, empty for the engine's.
    `queue_wait_s` is None for a request that never asked for a seat, `ttfb_s` for one that was
    sent no byte. `prompt_bytes` is the JSON that holds the prompt, `max_tokens` the output asked
    for; `prompt_tokens` and `output_tokens` are the engine's own counts, None where it told none
    or nobody read them; `prompt_tokens_estimate` is ours, None without a limit of tokens.
    `asked_after_s`: from the arrival to asking for a seat; `trace` is there where requests are
    traced. A struct, as a frozen dataclass takes five times as long to make (2.9 us).
    """

    arrived_wall_s: float
    arrived_at_s: float
    request_id: str
    method: str
    route: str
    outcome: RequestOutcome
    status: int
    duration_s: float
    queue_wait_s: float | None = None
    ttfb_s: float | None = None
    reason: str = ""
    upstream: str = ""
    seats: int = 0
    attempt: int = 0
    stream: bool = False
    body_bytes: int = 0
    response_bytes: int = 0
    prompt_bytes: int = 0
    max_tokens: int | None = None
    prompt_tokens_estimate: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    asked_after_s: float | None = None
    trace: TraceContext | None = None

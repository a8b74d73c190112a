"""What an application sees of each failure, client by client. docs/clients.md shows this table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT = "time-out of its own"
BROKEN = "stream that breaks"


@dataclass(frozen=True)
class Failure:
    """How to provoke it: the state of a gateway, and what else the call takes."""

    state: str
    status: int
    code: str
    more: Mapping[str, object] = field(default_factory=dict)


FAILURES = {
    "queue full": Failure("full", 503, "queue_full"),
    "queue full, as 429": Failure("full_429", 429, "queue_full"),
    "queue timeout": Failure("waiting", 503, "queue_timeout"),
    "engine down": Failure("down", 503, "upstream_unavailable"),
    "draining": Failure("draining", 503, "draining"),
    "engine dies": Failure("misbehaving", 502, "upstream_closed", {"model": "dies"}),
    "unauthorized": Failure("serving", 401, "invalid_api_key", {"api_key": "sk-of-nobody"}),
    "body too large": Failure("serving", 413, "body_too_large", {"text": "x" * 200_000}),
    # These two are the engine's own words; its codes are numbers.
    "unknown model": Failure("serving", 404, "404", {"model": "unknown"}),
    "bad request": Failure("serving", 400, "400", {"max_tokens": 5_000}),
}

_OPENAI = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    413: "APIStatusError",
    429: "RateLimitError",
    502: "InternalServerError",
    503: "InternalServerError",
    TIMEOUT: "APITimeoutError",
    BROKEN: "APIError",
}

CLASSES: Mapping[str, Mapping[int | str, str]] = {
    "openai-oldest": _OPENAI,
    "openai-newest": _OPENAI,
    "openai-node": _OPENAI | {413: "APIError", TIMEOUT: "APIConnectionTimeoutError"},
    "ai-sdk": dict.fromkeys(_OPENAI, "APICallError")
    | {TIMEOUT: "DOMException", BROKEN: "StreamProviderError"},
    # Each of them is the class of openai-python beside, too.
    "langchain": {
        400: "OpenAIInvalidRequestError",
        401: "OpenAIAuthenticationError",
        404: "OpenAIModelNotFoundError",
        413: "APIStatusError",
        429: "OpenAIRateLimitError",
        502: "OpenAIAPIError",
        503: "OpenAIAPIError",
        TIMEOUT: "OpenAITimeoutError",
        BROKEN: "APIError",
    },
    "anthropic": _OPENAI
    | {413: "ContentTooLargeError", 503: "ServiceUnavailableError", BROKEN: "APIStatusError"},
    "curl": dict.fromkeys(_OPENAI, "exit code 22")
    | {TIMEOUT: "exit code 28", BROKEN: "exit code 18"},
    "litellm": _OPENAI
    | {413: "APIError", 502: "BadGatewayError", 503: "ServiceUnavailableError", TIMEOUT: "Timeout"}
    | {BROKEN: "MidStreamFallbackError"},
}

FORGETS_THE_ENGINES_CODE = frozenset({"anthropic", "litellm"})
"""In Anthropic's form an error has no code; LiteLLM shows no body, and so only our header's."""

RETRYABLE = frozenset({429, 502, 503})
"""What the Vercel AI SDK calls retryable."""

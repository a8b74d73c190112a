"""Error bodies in OpenAI form, and the closed sets of types and codes that Sluice itself uses."""

from __future__ import annotations

import enum

import msgspec


class ErrorType(enum.StrEnum):
    """The `type` of an own error. SDKs show it; clients may branch on it."""

    SERVICE_UNAVAILABLE = "service_unavailable_error"
    RATE_LIMIT = "rate_limit_error"
    INVALID_REQUEST = "invalid_request_error"
    UPSTREAM = "upstream_error"
    SERVER = "server_error"


class ErrorCode(enum.StrEnum):
    """The `code` of an own error that is not a refusal.

    Refusals carry the reasons of the admission core as their codes, and failures of the engine
    the codes of the upstream errors; those of them that are named here are the same words.
    """

    INVALID_API_KEY = "invalid_api_key"
    UNKNOWN_PATH = "unknown_path"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    BODY_TOO_LARGE = "body_too_large"
    BODY_TIMEOUT = "body_timeout"
    BAD_REQUEST = "bad_request"
    TOO_MANY_SEQUENCES = "too_many_sequences"
    TOO_MANY_CONNECTIONS = "too_many_connections"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    UPSTREAM_CONNECT = "upstream_connect"
    UPSTREAM_PROTOCOL = "upstream_protocol"
    UPSTREAM_CLOSED = "upstream_closed"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    INTERNAL_ERROR = "internal_error"


class _Error(msgspec.Struct):
    message: str
    type: str
    param: str | None
    code: str


class _ErrorBody(msgspec.Struct):
    error: _Error


_encode = msgspec.json.Encoder().encode


def error_body(message: str, type_: str, code: str, param: str | None = None) -> bytes:
    """A complete JSON body, on one line: `{"error": {"message", "type", "param", "code"}}`."""
    try:
        return _encode(_ErrorBody(_Error(message, type_, param, code)))
    except UnicodeEncodeError:  # a lone surrogate that came from a client's bytes
        return _encode(_ErrorBody(_Error(_without_surrogates(message), type_, param, code)))


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")

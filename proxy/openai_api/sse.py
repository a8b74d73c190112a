"""Server-sent events that Sluice itself writes into a stream."""

from __future__ import annotations

from proxy.openai_api.errors import error_body


def error_event(message: str, type_: str, code: str) -> bytes:
    """One `data: {"error": ...}` event, which the OpenAI SDKs raise as an APIError.

    It opens with an empty line: the engine may have broken off in the middle of an event, and
    without it the error would become the tail of that event. After a complete event an empty
    line means nothing.
    """
    return b"\n\ndata: " + error_body(message, type_, code) + b"\n\n"

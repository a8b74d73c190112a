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


def anthropic_error_event(message: str, type_: str, code: str) -> bytes:
    """The same in a stream of Anthropic's form, as vLLM writes its own errors there.

    Anthropic's SDKs pass over an event without a name; they raise the `error` event, and their own
    exception with it, where a broken connection alone would be one of their HTTP library's.
    """
    typed = error_body(message, type_, code)[:-1] + b',"type":"error"}'
    return b"\n\nevent: error\ndata: " + typed + b"\n\n"

"""An engine that does what the model's name says: breaks, keeps silent, calls a tool."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from tests.support.scripted_upstream import Exchange, not_found, reset_on_receipt, silent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.support.scripted_answers import Handler
    from tests.support.scripted_exchange import Pair

RETRY_AFTER_S = 3
"""Longer than any client waits of its own accord before its first retry."""

_HEAD = {"id": "chatcmpl-1", "created": 1, "model": "tiny"}
_USAGE = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
# As vLLM 0.32 writes it for a tool that the request names.
_CALL = {
    "id": "chatcmpl-tool-1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"full": true}'},
}


def sse(*events: object) -> list[bytes]:
    return [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]


def choice(delta: Mapping[str, object], finish: str | None = None) -> dict[str, object]:
    return {
        **_HEAD,
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}],
    }


def message(content: Mapping[str, object], finish: str) -> dict[str, object]:
    whole = {"role": "assistant", "content": None, **content}
    return {
        **_HEAD,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": whole, "finish_reason": finish, "logprobs": None}],
        "usage": _USAGE,
    }


def anthropic_message(*content: Mapping[str, object], stop_reason: str) -> dict[str, object]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "tiny",
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 5},
    }


ANTHROPIC_START = {"type": "message_start", "message": anthropic_message(stop_reason="end_turn")}


async def calls_a_tool(exchange: Exchange) -> None:
    """As one of the wire formats has it, whole or in pieces."""
    asked = json.loads(exchange.request.body)
    if exchange.request.path == b"/v1/messages":
        use = {"type": "tool_use", "id": "1", "name": "look", "input": {"full": True}}
        answer(exchange, anthropic_message(use, stop_reason="tool_use"))
    elif not asked.get("stream"):
        answer(exchange, message({"tool_calls": [_CALL]}, "tool_calls"))
    else:
        function: Any = _CALL["function"]
        first = {**_CALL, "index": 0, "function": {**function, "arguments": ""}}
        pieces = [function["arguments"][:5], function["arguments"][5:]]
        deltas = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
        exchange.start_chunked()
        for event in sse(
            choice({"role": "assistant", "content": None}),
            *(choice({"tool_calls": [delta]}) for delta in (first, *deltas)),
            choice({}, "tool_calls"),
        ):
            exchange.chunk(event)
        exchange.chunk(b"data: [DONE]\n\n")
        exchange.end_chunked()


async def breaks_in_a_stream(exchange: Exchange) -> None:
    exchange.start_chunked()
    if exchange.request.path == b"/v1/messages":
        exchange.chunk(b"event: message_start\n" + sse(ANTHROPIC_START)[0])
    else:
        exchange.chunk(sse(choice({"role": "assistant", "content": "hel"}))[0])
    await asyncio.sleep(0.02)
    exchange.reset()


async def refuses(exchange: Exchange) -> None:
    """It does not want to be asked again."""
    refuse(exchange, [("retry-after", "1"), ("x-should-retry", "false")])


def refuse(exchange: Exchange, headers: Sequence[Pair]) -> None:
    busy = {"error": {"message": "busy", "type": "busy", "param": None, "code": 503}}
    exchange.respond(json.dumps(busy).encode(), 503, headers)


class Busy:
    """Its own 503 to the first request of each text, with a Retry-After; then it serves."""

    def __init__(self) -> None:
        self._turned_away: set[bytes] = set()

    async def __call__(self, exchange: Exchange) -> None:
        body = exchange.request.body
        if body not in self._turned_away:
            self._turned_away.add(body)
            refuse(exchange, [("retry-after", str(RETRY_AFTER_S))])
        elif exchange.request.path == b"/v1/messages":
            text = {"type": "text", "text": "served"}
            answer(exchange, anthropic_message(text, stop_reason="end_turn"))
        else:
            answer(exchange, message({"content": "served"}, "stop"))


def answer(exchange: Exchange, body: object) -> None:
    exchange.respond(json.dumps(body).encode())


BY_MODEL: Mapping[str, Handler] = {
    "tool": calls_a_tool,
    "breaks": breaks_in_a_stream,
    "dies": reset_on_receipt,
    "silent": silent,
    "refuses": refuses,
    "busy": Busy(),
}


async def by_model(exchange: Exchange) -> None:
    if not exchange.request.body:  # the gateway's own questions
        await not_found(exchange)
        return
    await BY_MODEL[json.loads(exchange.request.body)["model"]](exchange)

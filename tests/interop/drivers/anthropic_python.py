"""The `anthropic` package, against /v1/messages."""

from __future__ import annotations

from typing import Any

import anthropic
from lines import TOOL_PARAMETERS, Ask, chosen, messages, serve, version_of

TOOLS = {
    "tools": [{"name": "look", "description": "looks", "input_schema": TOOL_PARAMETERS}],
    "tool_choice": {"type": "tool", "name": "look"},
}


def open_message(ask: Ask, **more: object) -> Any:  # noqa: ANN401 - the library's types
    client = anthropic.Anthropic(base_url=ask.base_url, api_key=ask.api_key, **chosen(ask))
    return client.messages.create(
        model=ask.model, messages=messages(ask), max_tokens=ask.max_tokens, **more
    )


def chat(ask: Ask) -> dict[str, object]:
    answer = open_message(ask)
    return {
        "texts": [block.text for block in answer.content if block.type == "text"],
        "finish": answer.stop_reason,
        "tokens": answer.usage.output_tokens,
    }


def stream(ask: Ask) -> dict[str, object]:
    events = list(open_message(ask, stream=True))
    texts = [event.delta.text for event in events if event.type == "content_block_delta"]
    return {
        "texts": ["".join(texts)],
        "finish": next(e.delta.stop_reason for e in events if e.type == "message_delta"),
        "pieces": len(texts),
    }


def leave(ask: Ask) -> None:
    events = open_message(ask, stream=True)
    next(iter(events))
    events.close()


def tool(ask: Ask) -> dict[str, object]:
    answer = open_message(ask, **TOOLS)
    call = next(block for block in answer.content if block.type == "tool_use")
    return {"name": call.name, "arguments": call.input}


if __name__ == "__main__":
    calls = {"chat": chat, "stream": stream, "leave": leave, "tool": tool}
    serve(version_of("anthropic"), calls)

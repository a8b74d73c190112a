"""LiteLLM as a library, not as a gateway."""

from __future__ import annotations

import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches a price list on import

import litellm
from lines import TOOL_PARAMETERS, Ask, chosen, described, messages, serve, version_of

TOOL = {"type": "function", "function": {"name": "look", "parameters": TOOL_PARAMETERS}}
TOOLS = {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "look"}}}


def where(ask: Ask) -> dict[str, Any]:
    return {
        "model": f"openai/{ask.model}",
        "api_base": f"{ask.base_url}/v1",
        "api_key": ask.api_key,
        **chosen(ask),
    }


def open_chat(ask: Ask, **more: object) -> Any:  # noqa: ANN401 - the library's types
    return litellm.completion(
        messages=messages(ask), max_tokens=ask.max_tokens, **where(ask), **more
    )


def chat(ask: Ask, **more: object) -> dict[str, object]:
    answer = open_chat(ask, **more)
    return {
        "texts": [choice.message.content for choice in answer.choices],
        "finish": answer.choices[0].finish_reason,
        "tokens": answer.usage.completion_tokens,
    }


def stream(ask: Ask) -> dict[str, object]:
    chunks = [chunk for chunk in open_chat(ask, stream=True) if chunk.choices]
    return {
        "texts": ["".join(chunk.choices[0].delta.content or "" for chunk in chunks)],
        "finish": chunks[-1].choices[0].finish_reason,
        "pieces": len(chunks),
    }


def leave(ask: Ask) -> None:
    events = open_chat(ask, stream=True)
    next(iter(events))
    events.completion_stream.response.close()


def tool(ask: Ask) -> dict[str, str]:
    call = open_chat(ask, **TOOLS).choices[0].message.tool_calls[0]
    return {"name": call.function.name, "arguments": call.function.arguments}


def completion(ask: Ask) -> dict[str, object]:
    answer = litellm.text_completion(
        prompt=["one", "two"],
        max_tokens=ask.max_tokens,
        **{**where(ask), "model": f"text-completion-openai/{ask.model}"},
    )
    return {
        "texts": [choice.text for choice in answer.choices],
        "finish": answer.choices[0].finish_reason,
        "tokens": answer.usage.completion_tokens,
    }


def embeddings(ask: Ask) -> list[int]:
    inputs = [f"text {number}" for number in range(ask.count)]
    answer = litellm.embedding(input=inputs, encoding_format="float", **where(ask))
    return [len(item["embedding"]) for item in answer.data]


def describe(error: BaseException) -> dict[str, Any]:
    """It drops the answer's body; the headers, in which the gateway says its code too, it keeps."""
    headers = getattr(error, "litellm_response_headers", None) or {}
    told = described(error)
    return {**told, "code": headers.get("x-sluice-reason") or told["code"]}


if __name__ == "__main__":
    serve(
        version_of("litellm"),
        {
            "chat": chat,
            "n": lambda ask: chat(ask, n=2),
            "stream": stream,
            "leave": leave,
            "tool": tool,
            "completion": completion,
            "embeddings": embeddings,
        },
        describe,
    )

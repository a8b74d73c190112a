"""The `openai` package, of any version from 1.0.0 on."""

from __future__ import annotations

import openai
from lines import TOOL_PARAMETERS, Ask, chosen, messages, serve, version_of

TOOL = {"type": "function", "function": {"name": "look", "parameters": TOOL_PARAMETERS}}
TOOLS = {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "look"}}}


def client(ask: Ask) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{ask.base_url}/v1", api_key=ask.api_key, **chosen(ask))


def open_chat(ask: Ask, **more: object) -> object:
    return client(ask).chat.completions.create(
        model=ask.model, messages=messages(ask), max_tokens=ask.max_tokens, **more
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
    events.response.close()


def tool(ask: Ask) -> dict[str, str]:
    call = open_chat(ask, **TOOLS).choices[0].message.tool_calls[0]
    return {"name": call.function.name, "arguments": call.function.arguments}


def tool_stream(ask: Ask) -> dict[str, str]:
    deltas = [
        call.function
        for chunk in open_chat(ask, stream=True, **TOOLS)
        for choice in chunk.choices
        for call in choice.delta.tool_calls or ()
    ]
    return {
        "name": "".join(delta.name or "" for delta in deltas),
        "arguments": "".join(delta.arguments or "" for delta in deltas),
    }


def completion(ask: Ask) -> dict[str, object]:
    answer = client(ask).completions.create(
        model=ask.model, prompt=["one", "two"], max_tokens=ask.max_tokens
    )
    return {
        "texts": [choice.text for choice in answer.choices],
        "finish": answer.choices[0].finish_reason,
        "tokens": answer.usage.completion_tokens,
    }


def embeddings(ask: Ask) -> list[int]:
    inputs = [f"text {number}" for number in range(ask.count)]
    answer = client(ask).embeddings.create(model=ask.model, input=inputs)
    return [len(item.embedding) for item in answer.data]


def respond(ask: Ask) -> dict[str, object]:
    answer = client(ask).responses.create(
        model=ask.model, input="hello", max_output_tokens=ask.max_tokens
    )
    return {"texts": [answer.output_text], "tokens": answer.usage.output_tokens}


def respond_stream(ask: Ask) -> list[str]:
    events = client(ask).responses.create(
        model=ask.model, input="hello", max_output_tokens=ask.max_tokens, stream=True
    )
    return [event.type for event in events]


if __name__ == "__main__":
    serve(
        version_of("openai"),
        {
            "chat": chat,
            "n": lambda ask: chat(ask, n=2),
            "stream": stream,
            "leave": leave,
            "tool": tool,
            "tool_stream": tool_stream,
            "completion": completion,
            "embeddings": embeddings,
            "models": lambda ask: [model.id for model in client(ask).models.list()],
            "respond": respond,
            "respond_stream": respond_stream,
        },
    )

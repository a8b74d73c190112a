"""LangChain: the package `langchain-openai`."""

from __future__ import annotations

from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from lines import TOOL_PARAMETERS, Ask, chosen, messages, serve, version_of

TOOL = {"title": "look", "description": "looks", **TOOL_PARAMETERS}


def where(ask: Ask) -> dict[str, object]:
    return {
        "model": ask.model,
        "base_url": f"{ask.base_url}/v1",
        "api_key": ask.api_key,
        **chosen(ask),
    }


def model(ask: Ask, **more: object) -> ChatOpenAI:
    return ChatOpenAI(max_tokens=ask.max_tokens, **where(ask), **more)


def chat(ask: Ask) -> dict[str, object]:
    answer = model(ask).invoke(messages(ask))
    return {
        "texts": [answer.content],
        "finish": answer.response_metadata["finish_reason"],
        "tokens": answer.usage_metadata["output_tokens"],
    }


def several(ask: Ask) -> dict[str, object]:
    asked = [HumanMessage(message["content"]) for message in messages(ask)]
    result = model(ask, n=2).generate([asked])
    return {"texts": [generation.text for generation in result.generations[0]]}


def stream(ask: Ask) -> dict[str, object]:
    pieces = list(model(ask).stream(messages(ask)))
    reasons = [piece.response_metadata.get("finish_reason") for piece in pieces]
    return {
        "texts": ["".join(piece.content for piece in pieces)],
        "finish": next(reason for reason in reasons if reason),
        "pieces": len(pieces),
    }


def leave(ask: Ask) -> None:
    pieces = model(ask).stream(messages(ask))
    next(pieces)
    pieces.close()


def tool(ask: Ask) -> dict[str, object]:
    answer = model(ask).bind_tools([TOOL], tool_choice="look").invoke(messages(ask))
    call = answer.tool_calls[0]
    return {"name": call["name"], "arguments": call["args"]}


def tool_stream(ask: Ask) -> dict[str, object]:
    pieces = model(ask).bind_tools([TOOL], tool_choice="look").stream(messages(ask))
    whole = next(pieces)
    for piece in pieces:
        whole += piece
    return {"name": whole.tool_calls[0]["name"], "arguments": whole.tool_calls[0]["args"]}


def completion(ask: Ask) -> dict[str, object]:
    answer = OpenAI(max_tokens=ask.max_tokens, **where(ask)).generate(["one", "two"])
    first = answer.generations[0][0]
    return {
        "texts": [generations[0].text for generations in answer.generations],
        "finish": first.generation_info["finish_reason"],
        "tokens": answer.llm_output["token_usage"]["completion_tokens"],
    }


def embeddings(ask: Ask) -> list[int]:
    # As LangChain wants it for any engine but OpenAI's: else it sends tokens of OpenAI's models.
    embedder = OpenAIEmbeddings(check_embedding_ctx_length=False, **where(ask))
    found = embedder.embed_documents([f"text {number}" for number in range(ask.count)])
    return [len(vector) for vector in found]


if __name__ == "__main__":
    serve(
        version_of("langchain-openai"),
        {
            "chat": chat,
            "n": several,
            "stream": stream,
            "leave": leave,
            "tool": tool,
            "tool_stream": tool_stream,
            "completion": completion,
            "embeddings": embeddings,
        },
    )

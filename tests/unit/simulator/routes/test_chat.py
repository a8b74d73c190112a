from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from proxy.simulator.text import count_tokens
from tests.support.simulated_server import events_of, simulated
from tests.support.virtual_time import now, run

CHAT = b"/v1/chat/completions"
ASK: dict[str, Any] = {
    "model": "simulated",
    "messages": [{"role": "user", "content": "hello there"}],
    "max_tokens": 4,
}
STREAM = ASK | {"stream": True}


def answered(body: dict[str, Any], **options: object) -> tuple[int, dict[str, Any]]:
    async def scenario() -> tuple[int, dict[str, Any]]:
        async with simulated(**options) as server:
            answer = await server.post(CHAT, body)
            return answer.status, json.loads(answer.body)

    return run(scenario())


def streamed(body: dict[str, Any]) -> list[Any]:
    async def scenario() -> list[Any]:
        async with simulated() as server:
            answer = await server.post(CHAT, body)
            assert answer.status == 200
            assert answer.completed
            return events_of(answer.body)

    return run(scenario())


def test_an_answer_has_vllms_fields_in_vllms_order() -> None:
    _, body = answered(ASK)
    assert list(body) == [
        *("id", "object", "created", "model", "choices", "service_tier", "system_fingerprint"),
        *("usage", "prompt_logprobs", "prompt_token_ids", "prompt_text", "kv_transfer_params"),
        *("ec_transfer_params", "metrics"),
    ]
    (choice,) = body["choices"]
    assert list(choice) == [
        *("index", "message", "logprobs", "finish_reason", "stop_reason", "token_ids"),
        "routed_experts",
    ]
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] == "length"
    assert body["object"] == "chat.completion"
    assert body["model"] == "simulated"


def test_usage_counts_the_words_of_the_answer() -> None:
    _, body = answered(ASK)
    text = body["choices"][0]["message"]["content"]
    prompt_tokens = count_tokens("user: hello there\nassistant:")
    assert len(text.split()) == 4
    assert body["usage"]["prompt_tokens"] == prompt_tokens
    assert body["usage"]["completion_tokens"] == 4
    assert body["usage"]["total_tokens"] == prompt_tokens + 4


def test_n_answers_differ_and_share_one_prompt() -> None:
    _, body = answered(ASK | {"n": 3})
    texts = {choice["message"]["content"] for choice in body["choices"]}
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert len(texts) == 3
    assert body["usage"]["completion_tokens"] == 12
    _, alone = answered(ASK)
    assert body["usage"]["prompt_tokens"] == alone["usage"]["prompt_tokens"]


def test_the_newer_limit_beats_the_older() -> None:
    _, body = answered(ASK | {"max_completion_tokens": 2})
    assert body["usage"]["completion_tokens"] == 2


def test_without_a_limit_the_answer_ends_by_itself() -> None:
    _, body = answered({"messages": ASK["messages"]}, output_tokens=20)
    assert body["choices"][0]["finish_reason"] == "stop"
    assert 10 <= body["usage"]["completion_tokens"] <= 30


def test_a_stop_string_ends_the_answer_and_is_named() -> None:
    _, whole = answered(ASK)
    word = whole["choices"][0]["message"]["content"].split()[2]
    _, body = answered(ASK | {"stop": word})
    (choice,) = body["choices"]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", word)
    assert len(choice["message"]["content"].split()) == 2


def test_a_stream_opens_with_the_role_and_ends_with_done() -> None:
    first, *chunks, last = streamed(STREAM)
    assert first["choices"] == [
        {
            "index": 0,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
        }
    ]
    assert (first["prompt_token_ids"], first["prompt_text"]) == (None, None)
    assert last == "[DONE]"
    assert {chunk["object"] for chunk in [first, *chunks]} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in [first, *chunks]}) == 1
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [
        None,
        None,
        None,
        "length",
    ]


def test_only_the_chunk_that_ends_an_answer_has_a_stop_reason_and_a_fingerprint() -> None:
    *chunks, last = streamed(STREAM)[1:-1]
    assert list(last["choices"][0]) == [
        *("index", "delta", "logprobs", "finish_reason", "stop_reason", "token_ids")
    ]
    assert "system_fingerprint" in last
    assert all("stop_reason" not in chunk["choices"][0] for chunk in chunks)
    assert all("system_fingerprint" not in chunk for chunk in chunks)


def test_a_stream_tells_what_a_whole_answer_tells() -> None:
    told = "".join(e["choices"][0]["delta"]["content"] for e in streamed(STREAM)[:-1])
    _, body = answered(ASK)
    assert told == body["choices"][0]["message"]["content"]


def test_usage_comes_in_a_chunk_of_its_own_when_asked_for() -> None:
    *_, chunk, usage, _ = streamed(STREAM | {"stream_options": {"include_usage": True}})
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 4
    assert "system_fingerprint" in usage
    assert "system_fingerprint" not in chunk
    assert "usage" not in chunk


def test_usage_may_come_all_along() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    *chunks, _, _ = streamed(STREAM | {"stream_options": options})
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [0, 1, 2, 3, 4]


def test_n_streams_are_told_apart_by_index() -> None:
    events = streamed(STREAM | {"n": 2})[:-1]
    roles, rest = events[:2], events[2:]
    assert [role["choices"][0]["index"] for role in roles] == [0, 1]
    texts = ["", ""]
    for event in rest:
        (choice,) = event["choices"]
        texts[choice["index"]] += choice["delta"]["content"]
    assert [len(text.split()) for text in texts] == [4, 4]
    assert texts[0] != texts[1]


def test_tokens_come_when_the_engine_has_them() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            exchange = server.start(CHAT, STREAM)
            moments = [now() async for chunk in exchange if b'"content":""' not in chunk]
            assert 0.0 < moments[0] < moments[1] < moments[2] < moments[3]

    run(scenario())


def test_what_a_slow_reader_missed_comes_in_one_chunk() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            exchange = server.start(CHAT, STREAM | {"max_tokens": 50, "ignore_eos": True})
            await exchange.head()
            exchange.stop_reading()
            while server.engine.snapshot().running:
                await asyncio.sleep(0.1)
            exchange.resume_reading()
            events = events_of(await exchange.read())
            texts = [event["choices"][0]["delta"]["content"] for event in events[:-1]]
            assert len("".join(texts).split()) == 50
            assert len(texts) < 10

    run(scenario())


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"model": "huge"}, 404, "The model `huge` does not exist."),
        ({"messages": []}, 400, "Cannot apply chat template to an empty conversation."),
        ({"messages": "hi"}, 400, "1 validation error:"),
        ({"n": 0}, 400, "n must be at least 1"),
        ({"max_tokens": 10_000}, 400, "max_tokens=10000 cannot be greater than max_model_len=8192"),
        ({"max_completion_tokens": 10_000}, 400, "max_completion_tokens=10000 cannot be"),
        ({"messages": [{"content": "hi " * 9000}]}, 400, "This model's maximum context length"),
        ({"stream_options": {"include_usage": True}}, 400, "Stream options can only be defined"),
    ],
)
def test_a_bad_request_is_refused_stream_or_not(
    change: dict[str, Any], status: int, message: str
) -> None:
    for body in (ASK, STREAM) if "stream_options" not in change else (ASK,):
        answer_status, answer = answered(body | change)
        assert answer_status == status
        assert answer["error"]["message"].startswith(message)
        assert answer["error"]["code"] == status

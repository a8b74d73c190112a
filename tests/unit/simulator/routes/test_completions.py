from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.simulated_server import events_of, simulated
from tests.support.virtual_time import run

PATH = b"/v1/completions"
ASK: dict[str, Any] = {"model": "simulated", "prompt": "hello there", "max_tokens": 3}


def answered(body: dict[str, Any], **options: object) -> tuple[int, dict[str, Any]]:
    async def scenario() -> tuple[int, dict[str, Any]]:
        async with simulated(**options) as server:
            answer = await server.post(PATH, body)
            return answer.status, json.loads(answer.body)

    return run(scenario())


def streamed(body: dict[str, Any]) -> list[Any]:
    async def scenario() -> list[Any]:
        async with simulated() as server:
            answer = await server.post(PATH, body | {"stream": True})
            assert answer.status == 200
            return events_of(answer.body)

    return run(scenario())


def test_an_answer_has_vllms_fields_in_vllms_order() -> None:
    _, body = answered(ASK)
    assert list(body) == [
        *("id", "object", "created", "model", "choices", "service_tier", "system_fingerprint"),
        *("usage", "kv_transfer_params", "ec_transfer_params", "metrics"),
    ]
    assert list(body["choices"][0]) == [
        *("index", "text", "logprobs", "finish_reason", "stop_reason", "token_ids"),
        *("prompt_logprobs", "prompt_token_ids", "routed_experts"),
    ]
    assert body["id"].startswith("cmpl-")
    assert body["usage"]["prompt_tokens"] == 2


def test_sixteen_tokens_are_the_default_and_null_lifts_it() -> None:
    plain = {"prompt": "hello", "ignore_eos": True}
    _, body = answered(plain)
    assert body["usage"]["completion_tokens"] == 16
    _, body = answered(plain | {"max_tokens": None}, max_model_len=100)
    assert body["usage"]["total_tokens"] == 100


def test_output_is_cut_at_the_model_length() -> None:
    _, body = answered({"prompt": [5] * 90, "max_tokens": 50}, max_model_len=100)
    assert body["usage"]["completion_tokens"] == 10
    assert body["choices"][0]["finish_reason"] == "length"


def test_each_prompt_has_n_choices_in_order() -> None:
    _, body = answered(ASK | {"prompt": ["hello", "hello there"], "n": 2})
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
    assert len({choice["text"] for choice in body["choices"]}) == 4
    assert body["usage"]["prompt_tokens"] == 3
    assert body["usage"]["completion_tokens"] == 12


def test_token_ids_are_prompts_too() -> None:
    _, body = answered(ASK | {"prompt": [[5, 6, 7], [8]]})
    assert len(body["choices"]) == 2
    assert body["usage"]["prompt_tokens"] == 4


def test_a_stream_tells_every_prompt_by_index_and_has_no_role() -> None:
    *chunks, done = streamed(ASK | {"prompt": ["hello", "goodbye"]})
    assert done == "[DONE]"
    texts = ["", ""]
    for chunk in chunks:
        (choice,) = chunk["choices"]
        assert list(choice) == [
            *("index", "text", "logprobs", "finish_reason", "stop_reason", "prompt_token_ids"),
            "token_ids",
        ]
        texts[choice["index"]] += choice["text"]
    assert [len(text.split()) for text in texts] == [3, 3]


def test_usage_at_the_end_of_a_stream_is_of_all_prompts() -> None:
    asked = {"prompt": ["hello", "goodbye"], "stream_options": {"include_usage": True}}
    usage = streamed(ASK | asked)[-2]
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 6


def test_the_queue_bound_counts_prompts_times_n() -> None:
    body = ASK | {"prompt": ["a", "b"], "n": 2}
    assert answered(body, max_num_queued_reqs=4)[0] == 200
    assert answered(body, max_num_queued_reqs=3)[0] == 503


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": None}, "Either prompt or prompt_embeds must be provided and non-empty."),
        ({"prompt": ""}, "Either prompt or prompt_embeds must be provided and non-empty."),
        ({"prompt": []}, "You must pass at least one prompt"),
        ({"prompt": [5] * 9000}, "This model's maximum context length is 8192 tokens."),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0."),
        ({"n": "many"}, "1 validation error:"),
        ({"temperature": -1}, "temperature must be non-negative"),
    ],
)
def test_a_bad_request_is_refused(change: dict[str, Any], message: str) -> None:
    status, body = answered(ASK | change)
    assert status == 400
    assert body["error"]["message"].startswith(message)

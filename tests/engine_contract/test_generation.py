"""The shape of whole answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.engine_process import MAX_MODEL_LEN, MODEL
from tests.support.engine_requests import MESSAGES, chat, completion

if TYPE_CHECKING:
    import httpx

    from tests.support.engine_requests import Json


def post(http: httpx.Client, path: str, body: Json) -> Json:
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    read: Json = answer.json()
    return read


def test_a_completion_has_the_form_that_sdks_read(http: httpx.Client) -> None:
    answer = post(http, "/v1/completions", completion(4))
    assert answer["id"].startswith("cmpl-")
    assert (answer["object"], answer["model"]) == ("text_completion", MODEL)
    (choice,) = answer["choices"]
    assert (choice["index"], choice["finish_reason"]) == (0, "length")
    assert isinstance(choice["text"], str)
    assert isinstance(answer["created"], int)


def test_a_chat_completion_has_the_form_that_sdks_read(http: httpx.Client) -> None:
    answer = post(http, "/v1/chat/completions", chat(4))
    assert answer["id"].startswith("chatcmpl-")
    assert (answer["object"], answer["model"]) == ("chat.completion", MODEL)
    (choice,) = answer["choices"]
    assert (choice["index"], choice["finish_reason"]) == (0, "length")
    assert choice["message"]["role"] == "assistant"
    assert isinstance(choice["message"]["content"], str)


def test_a_response_has_the_form_that_sdks_read(http: httpx.Client) -> None:
    body = {"model": MODEL, "input": "hello", "max_output_tokens": 3}
    answer = post(http, "/v1/responses", body)
    assert answer["id"].startswith("resp_")
    assert (answer["object"], answer["model"]) == ("response", MODEL)
    (item,) = answer["output"]
    assert (item["type"], item["role"]) == ("message", "assistant")
    assert item["content"][0]["type"] == "output_text"
    assert answer["usage"]["output_tokens"] <= 3


def test_a_message_has_the_form_that_sdks_read(http: httpx.Client) -> None:
    body = {"model": MODEL, "messages": MESSAGES, "max_tokens": 3}
    answer = post(http, "/v1/messages", body)
    assert (answer["type"], answer["role"], answer["model"]) == ("message", "assistant", MODEL)
    assert answer["content"][0]["type"] == "text"
    assert 0 < answer["usage"]["output_tokens"] <= 3
    assert answer["usage"]["input_tokens"] > 0


@pytest.mark.parametrize("length", [1, 2, 7, 64])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_with_ignore_eos_the_length_is_exact(http: httpx.Client, path: str, length: int) -> None:
    body = completion(length) if path == "/v1/completions" else chat(length)
    usage = post(http, path, body)["usage"]
    assert usage["completion_tokens"] == length
    assert usage["total_tokens"] == usage["prompt_tokens"] + length


def test_max_completion_tokens_counts_as_max_tokens(http: httpx.Client) -> None:
    body = chat(9, max_completion_tokens=5)
    del body["max_tokens"]
    assert post(http, "/v1/chat/completions", body)["usage"]["completion_tokens"] == 5


def test_without_a_length_a_completion_has_16_tokens(http: httpx.Client) -> None:
    body = completion()
    del body["max_tokens"]
    assert post(http, "/v1/completions", body)["usage"]["completion_tokens"] == 16


@pytest.mark.parametrize("max_tokens", [100, None])
def test_an_answer_ends_where_the_model_length_ends(
    http: httpx.Client, max_tokens: int | None
) -> None:
    body = completion(prompt=[5] * (MAX_MODEL_LEN - 8), max_tokens=max_tokens)
    answer = post(http, "/v1/completions", body)
    assert answer["usage"]["completion_tokens"] == 8
    assert answer["choices"][0]["finish_reason"] == "length"


def test_n_choices_share_a_prompt(http: httpx.Client) -> None:
    one = post(http, "/v1/chat/completions", chat(3))["usage"]
    answer = post(http, "/v1/chat/completions", chat(3, n=3))
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert answer["usage"]["completion_tokens"] == 9
    assert answer["usage"]["prompt_tokens"] == one["prompt_tokens"]


@pytest.mark.parametrize("prompts", [["hello", "there"], [[5, 6, 7], [8]]])
def test_a_list_of_prompts_is_answered_in_order(http: httpx.Client, prompts: list[object]) -> None:
    answer = post(http, "/v1/completions", completion(2, prompt=prompts, n=2))
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["completion_tokens"] == 8


def test_a_prompt_of_token_ids_is_one_prompt(http: httpx.Client) -> None:
    answer = post(http, "/v1/completions", completion(2, prompt=[5, 6, 7]))
    assert len(answer["choices"]) == 1
    assert answer["usage"]["prompt_tokens"] == 3


def test_the_clients_request_id_becomes_part_of_the_answers(http: httpx.Client) -> None:
    answer = http.post("/v1/chat/completions", json=chat(1), headers={"x-request-id": "mine-1"})
    assert answer.json()["id"] == "chatcmpl-mine-1"
    assert "x-request-id" not in answer.headers


def test_a_request_without_a_model_gets_the_one_there_is(http: httpx.Client) -> None:
    body = completion(1)
    del body["model"]
    assert post(http, "/v1/completions", body)["model"] == MODEL


@pytest.mark.parametrize("n", ["2", 2.0])
def test_a_number_may_come_in_another_type(http: httpx.Client, n: object) -> None:
    assert len(post(http, "/v1/completions", completion(1, n=n))["choices"]) == 2

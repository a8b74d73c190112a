"""Which routes there are, and what the small ones answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.engine_process import MAX_MODEL_LEN, MODEL
from tests.support.engine_requests import MESSAGES

if TYPE_CHECKING:
    import httpx


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/health"), ("GET", "/ping"), ("POST", "/ping")]
)
def test_a_living_engine_answers_its_health_check_with_an_empty_200(
    http: httpx.Client, method: str, path: str
) -> None:
    answer = http.request(method, path)
    assert (answer.status_code, answer.content) == (200, b"")


def test_the_version_is_told(http: httpx.Client) -> None:
    assert http.get("/version").json() == {"version": "0.32.0"}


def test_the_model_list_tells_how_long_a_request_may_be(http: httpx.Client) -> None:
    answer = http.get("/v1/models").json()
    assert answer["object"] == "list"
    (card,) = answer["data"]
    told = {key: card[key] for key in ("id", "object", "owned_by", "max_model_len")}
    assert told == {
        "id": MODEL,
        "object": "model",
        "owned_by": "vllm",
        "max_model_len": MAX_MODEL_LEN,
    }


def test_server_load_is_zero_while_it_is_not_tracked(http: httpx.Client) -> None:
    assert http.get("/load").json() == {"server_load": 0}


def test_a_prompt_is_tokenized(http: httpx.Client) -> None:
    answer = http.post("/tokenize", json={"model": MODEL, "prompt": "hello there"}).json()
    assert answer["count"] == len(answer["tokens"]) > 0
    assert answer["max_model_len"] == MAX_MODEL_LEN


def test_a_conversation_is_tokenized_with_its_template(http: httpx.Client) -> None:
    plain = http.post("/tokenize", json={"model": MODEL, "prompt": "hello there"}).json()
    answer = http.post("/tokenize", json={"model": MODEL, "messages": MESSAGES}).json()
    assert answer["count"] == len(answer["tokens"]) > plain["count"]


def test_tokens_are_turned_back_into_text(http: httpx.Client) -> None:
    tokens = http.post("/tokenize", json={"model": MODEL, "prompt": "hello there"}).json()["tokens"]
    answer = http.post("/detokenize", json={"model": MODEL, "tokens": tokens})
    assert answer.status_code == 200
    assert isinstance(answer.json()["prompt"], str)


def test_the_tokens_of_a_message_are_counted(http: httpx.Client) -> None:
    body = {"model": MODEL, "messages": MESSAGES}
    assert http.post("/v1/messages/count_tokens", json=body).json()["input_tokens"] > 0


@pytest.mark.parametrize(
    "path", ["/nope", "/v1", "/v1/nope", f"/v1/models/{MODEL}", "/V1/models", "/sleep", "/reset"]
)
def test_a_path_that_is_not_there_is_404_in_the_frameworks_form(
    http: httpx.Client, path: str
) -> None:
    answer = http.get(path)
    assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", "POST"),
        ("GET", "/v1/completions", "POST"),
        ("PUT", "/v1/models", "GET"),
        ("DELETE", "/v1/responses/resp_1", "GET"),
    ],
)
def test_a_wrong_method_is_405_and_names_the_right_one(
    http: httpx.Client, method: str, path: str, allowed: str
) -> None:
    answer = http.request(method, path)
    assert (answer.status_code, answer.json()) == (405, {"detail": "Method Not Allowed"})
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("POST", "/cancel")])
def test_a_response_that_is_not_kept_is_404(http: httpx.Client, method: str, path: str) -> None:
    answer = http.request(method, f"/v1/responses/resp_unknown{path}")
    assert answer.status_code == 404
    assert answer.json()["error"] == {
        "message": "Response with id 'resp_unknown' not found.",
        "type": "invalid_request_error",
        "param": "response_id",
        "code": 404,
    }

"""What an engine says to a request that it cannot serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.engine_process import MAX_MODEL_LEN, MODEL
from tests.support.engine_requests import MESSAGES, chat, completion

if TYPE_CHECKING:
    import httpx

    from tests.support.engine_requests import Json

_JSON = {"content-type": "application/json"}


def error(http: httpx.Client, path: str, body: Json, status: int) -> Json:
    """The error of an answer in OpenAI's form, but with a number for its code."""
    return checked_error(http.post(path, json=body), status)


def checked_error(answer: httpx.Response, status: int) -> Json:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    found: Json = answer.json()["error"]
    assert set(found) == {"message", "type", "param", "code"}
    assert found["code"] == status
    return found


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", completion(1, prompt=[5] * (MAX_MODEL_LEN + 1))),
        ("/v1/completions", completion(1, prompt="hello " * MAX_MODEL_LEN)),
        (
            "/v1/chat/completions",
            chat(1, messages=[{"role": "user", "content": "hello " * MAX_MODEL_LEN}]),
        ),
    ],
)
def test_a_prompt_that_is_too_long_is_400_and_told_the_limit(
    http: httpx.Client, path: str, body: Json
) -> None:
    found = error(http, path, body, 400)
    assert found["type"] == "BadRequestError"
    # A text can be so long that nobody counts its tokens.
    assert found["param"] in ("input_tokens", "input_text")
    assert f"maximum context length is {MAX_MODEL_LEN} tokens" in found["message"]


def test_a_prompt_that_leaves_no_room_for_a_token_is_400(http: httpx.Client) -> None:
    error(http, "/v1/completions", completion(1, prompt=[5] * MAX_MODEL_LEN), 400)


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_a_longer_answer_than_the_model_can_give_is_400(http: httpx.Client, field: str) -> None:
    body = {"model": MODEL, "messages": MESSAGES, field: MAX_MODEL_LEN + 1}
    found = error(http, "/v1/chat/completions", body, 400)
    assert (found["type"], found["param"]) == ("BadRequestError", field)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "x"}),
        ("/v1/chat/completions", {"messages": MESSAGES}),
        ("/v1/responses", {"input": "x"}),
        ("/tokenize", {"prompt": "x"}),
    ],
)
def test_an_unknown_model_is_404(http: httpx.Client, path: str, body: Json) -> None:
    found = error(http, path, {"model": "nope", **body}, 404)
    assert (found["type"], found["param"]) == ("NotFoundError", "model")
    assert "`nope` does not exist" in found["message"]


def test_an_unknown_model_of_a_message_is_404_in_its_own_form(http: httpx.Client) -> None:
    body = {"model": "nope", "messages": MESSAGES, "max_tokens": 1}
    answer = http.post("/v1/messages", json=body)
    assert answer.status_code == 404
    assert answer.json()["type"] == "error"
    assert answer.json()["error"]["type"] == "NotFoundError"


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_before_the_first_token_is_no_stream(http: httpx.Client, stream: bool) -> None:
    body = completion(1, prompt=[5] * (MAX_MODEL_LEN + 1), stream=stream)
    error(http, "/v1/completions", body, 400)


@pytest.mark.parametrize(
    ("raw", "param"),
    [(b'{"model":', "body.9"), (b"", "body"), (b"[1]", "body"), (b"\xff\xfe", None)],
)
def test_a_body_that_is_no_json_object_is_400(
    http: httpx.Client, raw: bytes, param: str | None
) -> None:
    found = checked_error(http.post("/v1/completions", content=raw, headers=_JSON), 400)
    if param is not None:
        assert (found["type"], found["param"]) == ("Bad Request", param)


@pytest.mark.parametrize("headers", [{"content-type": "text/plain"}, {}])
def test_a_body_that_is_not_called_json_is_400(http: httpx.Client, headers: dict[str, str]) -> None:
    answer = http.post("/v1/completions", content=b'{"prompt":"x"}', headers=headers)
    assert "Only 'application/json' is allowed" in checked_error(answer, 400)["message"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions", {"model": MODEL}, "body.messages"),
        ("/v1/chat/completions", {"model": MODEL, "messages": "hi"}, "body.messages"),
        ("/v1/completions", completion(1, stream="yes!"), "body.stream"),
        ("/v1/completions", completion(1, n=1.5), "body.n"),
        ("/v1/responses", {"model": MODEL}, "body.input"),
        ("/v1/messages", {"model": MODEL, "messages": MESSAGES}, "body.max_tokens"),
    ],
)
def test_a_field_of_the_wrong_type_is_400_and_named(
    http: httpx.Client, path: str, body: Json, param: str
) -> None:
    found = error(http, path, body, 400)
    assert (found["type"], found["param"]) == ("Bad Request", param)


@pytest.mark.parametrize(
    "change",
    [
        {"n": 0},
        {"n": -1},
        {"n": 1_000_000_000},
        {"max_tokens": 0},
        {"max_tokens": -1},
        {"temperature": -1},
        {"top_p": 2},
        {"prompt": ""},
        {"prompt": []},
        {"stream_options": {"include_usage": True}},
    ],
)
def test_a_value_that_makes_no_sense_is_400(http: httpx.Client, change: Json) -> None:
    found = error(http, "/v1/completions", completion(4) | change, 400)
    assert found["type"] == "BadRequestError"

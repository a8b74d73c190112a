from __future__ import annotations

import pytest

from proxy.simulator.bodies import (
    ChatBody,
    CompletionBody,
    EmbeddingBody,
    ScoreBody,
    decode_json,
    read_body,
)
from proxy.simulator.errors import ApiError
from proxy.simulator.exchange import Exchange


async def _never() -> dict[str, object]:
    raise AssertionError("nothing is received here")


async def _nothing(_message: object) -> None:
    raise AssertionError("nothing is sent here")


def exchange(body: bytes, content_type: bytes | None = b"application/json") -> Exchange:
    headers = [] if content_type is None else [(b"content-type", content_type)]
    made = Exchange({"method": "POST", "path": "/", "headers": headers}, _never, _nothing)
    made.body = body
    return made


def refusal(shape: type, body: bytes, content_type: bytes | None = b"application/json") -> ApiError:
    with pytest.raises(ApiError) as caught:
        read_body(shape, exchange(body, content_type))
    return caught.value


def test_fields_that_are_not_read_are_let_be() -> None:
    body = read_body(ChatBody, exchange(b'{"messages": [], "tools": [1], "logprobs": 5}'))
    assert body.messages == []
    assert body.n == 1


@pytest.mark.parametrize("content_type", [b"Application/JSON", b"application/json; charset=utf-8"])
def test_the_content_type_may_be_written_as_http_allows(content_type: bytes) -> None:
    assert read_body(CompletionBody, exchange(b"{}", content_type)).max_tokens == 16


@pytest.mark.parametrize("content_type", [None, b"text/plain", b"application/jsonl"])
def test_another_content_type_is_refused(content_type: bytes | None) -> None:
    error = refusal(CompletionBody, b"{}", content_type)
    assert "Only 'application/json' is allowed" in error.message
    assert (error.type_, error.param) == ("Bad Request", None)


@pytest.mark.parametrize(("value", "n"), [("4", 4), ('"4"', 4), ("4.0", 4), ("true", 1)])
def test_numbers_are_taken_as_generously_as_vllm_takes_them(value: str, n: int) -> None:
    raw = f'{{"prompt": "x", "n": {value}}}'.encode()
    assert read_body(CompletionBody, exchange(raw)).n == n


def test_a_missing_field_is_named() -> None:
    error = refusal(ChatBody, b'{"model": "tiny"}')
    assert error.param == "body.messages"
    assert error.message == (
        "1 validation error:\n  {'type': 'missing', 'loc': 'body.messages', "
        "'msg': 'Field required', 'input': '<dict of 1 items>'}"
    )


def test_a_value_of_the_wrong_type_is_shown() -> None:
    error = refusal(CompletionBody, b'{"prompt": "x", "n": 4.5}')
    assert error.param == "body.n"
    assert "'input': '4.5'" in error.message


def test_union_branches_are_not_shown() -> None:
    assert refusal(CompletionBody, b'{"prompt": {"a": 1}}').param == "body.prompt"


def test_many_errors_are_cut_short() -> None:
    error = refusal(EmbeddingBody, b'{"input": [' + b"{}," * 50 + b"{}]}")
    assert error.message.count("\n") == 11
    assert "more errors" in error.message


def test_a_long_value_is_cut_short() -> None:
    error = refusal(ChatBody, b'{"messages": "' + b"x" * 1000 + b'"}')
    assert "...[truncated]" in error.message
    assert len(error.message) < 400


@pytest.mark.parametrize(
    ("body", "param"),
    [(b'{"a":', "body.5"), (b"", "body"), (b"[1]", "body"), (b'{"a": "\xff"}', "body.7")],
)
def test_a_body_that_is_no_json_object_is_refused_where_it_breaks(body: bytes, param: str) -> None:
    error = refusal(CompletionBody, body)
    assert (error.status, error.param) == (400, param)


def test_nan_is_read_as_vllm_reads_it() -> None:
    assert str(decode_json(b'{"temperature": NaN}')) == "{'temperature': nan}"


def test_scores_may_name_their_two_sides_in_either_way() -> None:
    old = read_body(ScoreBody, exchange(b'{"text_1": "a", "text_2": ["b"]}'))
    new = read_body(ScoreBody, exchange(b'{"queries": "a", "documents": ["b"]}'))
    assert old == new

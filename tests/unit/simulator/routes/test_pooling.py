from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest

from tests.support.simulated_server import simulated
from tests.support.virtual_time import now, run


def answered(path: bytes, body: dict[str, Any], **options: object) -> tuple[int, Any]:
    async def scenario() -> tuple[int, Any]:
        async with simulated(**options) as server:
            answer = await server.post(path, body)
            return answer.status, json.loads(answer.body)

    return run(scenario())


def test_every_input_has_its_vector() -> None:
    status, body = answered(b"/v1/embeddings", {"input": ["hello", "hello there"]})
    assert status == 200
    assert [item["index"] for item in body["data"]] == [0, 1]
    first, second = (item["embedding"] for item in body["data"])
    assert sum(value * value for value in first) == pytest.approx(1.0)
    assert first != second
    assert body["usage"] == {
        "prompt_tokens": 3,
        "total_tokens": 3,
        "completion_tokens": 0,
        "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }


def test_vectors_may_come_as_base64() -> None:
    _, plain = answered(b"/v1/embeddings", {"input": "hello"})
    _, packed = answered(b"/v1/embeddings", {"input": "hello", "encoding_format": "base64"})
    raw = base64.b64decode(packed["data"][0]["embedding"])
    values = struct.unpack(f"<{len(raw) // 4}f", raw)
    assert list(values) == pytest.approx(plain["data"][0]["embedding"], abs=1e-6)


def test_pooling_gives_the_same_in_its_own_form() -> None:
    _, body = answered(b"/pooling", {"input": [5, 6, 7]})
    assert body["data"][0]["object"] == "pooling"
    assert body["usage"]["prompt_tokens"] == 3


@pytest.mark.parametrize("path", [b"/score", b"/v1/score"])
def test_each_document_is_scored_against_the_query(path: bytes) -> None:
    _, body = answered(path, {"text_1": "a b", "text_2": ["c", "d"]})
    assert [item["object"] for item in body["data"]] == ["score", "score"]
    assert all(0 <= item["score"] < 1 for item in body["data"])


@pytest.mark.parametrize("path", [b"/rerank", b"/v1/rerank", b"/v2/rerank"])
def test_documents_are_ranked_and_cut(path: bytes) -> None:
    asked = {"query": "a b", "documents": ["c", "d", "e"]}
    _, body = answered(path, asked)
    scores = [result["relevance_score"] for result in body["results"]]
    assert scores == sorted(scores, reverse=True)
    assert {result["document"]["text"] for result in body["results"]} == {"c", "d", "e"}
    _, cut = answered(path, asked | {"top_n": 1})
    assert cut["results"] == body["results"][:1]


def test_inputs_take_seats_and_time_like_any_prompt() -> None:
    async def scenario() -> None:
        async with simulated(max_num_seqs=2) as server:
            await server.post(b"/v1/embeddings", {"input": ["hello"] * 8})
            assert server.engine.snapshot().steps == 4
            assert now() > 4 * server.engine.options.cost.base_s

    run(scenario())


def test_inputs_count_against_the_queue_bound() -> None:
    body = {"input": ["a", "b", "c"]}
    assert answered(b"/v1/embeddings", body, max_num_queued_reqs=3)[0] == 200
    assert answered(b"/v1/embeddings", body, max_num_queued_reqs=2)[0] == 503


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (b"/v1/embeddings", {"model": "huge", "input": "x"}, 404),
        (b"/v1/embeddings", {"input": ""}, 400),
        (b"/v1/embeddings", {"input": [1] * 9000}, 400),
        (b"/score", {"text_1": "a"}, 400),
        (b"/rerank", {"query": "a"}, 400),
    ],
)
def test_a_bad_request_is_refused(path: bytes, body: dict[str, Any], status: int) -> None:
    assert answered(path, body)[0] == status

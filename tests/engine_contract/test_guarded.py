"""An engine that asks for a key, and one that embeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from tests.support.engine_process import MODEL, EngineProcess

if TYPE_CHECKING:
    from tests.support.engine_requests import Json


def ask(engine: EngineProcess, method: str, path: str, **headers: str) -> httpx.Response:
    return httpx.request(method, f"{engine.url}{path}", headers=headers, trust_env=False)


def embed(engine: EngineProcess, given: object, status: int = 200, **more: object) -> Json:
    with engine.client() as http:
        answer = http.post("/v1/embeddings", json={"model": MODEL, "input": given, **more})
    assert answer.status_code == status, answer.text
    read: Json = answer.json()
    return read


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("POST", "/v1/embeddings"),
        ("GET", "/v1/nope"),
        ("POST", "/v2/rerank"),
        ("GET", "/inference/v1/generate"),
    ],
)
def test_without_the_key_the_guarded_paths_are_401_with_a_bare_string(
    guarded_engine: EngineProcess, method: str, path: str
) -> None:
    answer = ask(guarded_engine, method, path)
    assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})


@pytest.mark.parametrize("given", ["Bearer wrong", "Bearer", "sk-engine", "Basic sk-engine"])
def test_another_key_is_none(guarded_engine: EngineProcess, given: str) -> None:
    answer = ask(guarded_engine, "GET", "/v1/models", authorization=given)
    assert answer.status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_the_key_opens(guarded_engine: EngineProcess, scheme: str) -> None:
    key = f"{scheme} {guarded_engine.api_key}"
    assert ask(guarded_engine, "GET", "/v1/models", authorization=key).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/metrics", "/version", "/load", "/ping"])
def test_some_paths_ask_for_no_key(guarded_engine: EngineProcess, path: str) -> None:
    assert ask(guarded_engine, "GET", path).status_code == 200


def test_the_key_is_not_in_the_log(guarded_engine: EngineProcess) -> None:
    assert guarded_engine.api_key is not None
    assert guarded_engine.api_key not in guarded_engine.log.read_text(errors="replace")


def test_an_embedding_has_the_form_that_sdks_read(guarded_engine: EngineProcess) -> None:
    answer = embed(guarded_engine, "hello there")
    assert (answer["object"], answer["model"]) == ("list", MODEL)
    (vector,) = answer["data"]
    assert (vector["object"], vector["index"]) == ("embedding", 0)
    assert all(isinstance(number, float) for number in vector["embedding"])
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 0


@pytest.mark.parametrize("given", [["hello", "there"], [[5, 6], [7]]])
def test_every_input_has_a_vector_of_the_same_length(
    guarded_engine: EngineProcess, given: list[object]
) -> None:
    data = embed(guarded_engine, given)["data"]
    assert [vector["index"] for vector in data] == [0, 1]
    assert len({len(vector["embedding"]) for vector in data}) == 1


def test_more_inputs_than_max_num_seqs_are_served(guarded_engine: EngineProcess) -> None:
    many = 5 * guarded_engine.max_num_seqs
    assert len(embed(guarded_engine, ["hello"] * many)["data"]) == many


def test_a_vector_may_come_as_base64(guarded_engine: EngineProcess) -> None:
    (vector,) = embed(guarded_engine, "hello", encoding_format="base64")["data"]
    assert isinstance(vector["embedding"], str)


def test_an_input_that_is_too_long_is_400(guarded_engine: EngineProcess) -> None:
    answer = embed(guarded_engine, [5] * 3000, 400)
    assert answer["error"]["code"] == 400

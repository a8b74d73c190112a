from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.support.simulated_server import simulated
from tests.support.virtual_time import run

LONG = {"prompt": "hello", "max_tokens": 4000, "ignore_eos": True}


def got(path: bytes) -> dict[str, Any] | None:
    async def scenario() -> dict[str, Any] | None:
        async with simulated(served_model_name="tiny", max_model_len=2048) as server:
            answer = await server.get(path)
            assert answer.status == 200
            return json.loads(answer.body) if answer.body else None

    return run(scenario())


def posted(path: bytes, body: object) -> tuple[int, Any]:
    async def scenario() -> tuple[int, Any]:
        async with simulated(max_model_len=2048) as server:
            answer = await server.post(path, body)
            return answer.status, json.loads(answer.body)

    return run(scenario())


def test_health_has_no_body() -> None:
    assert got(b"/health") is got(b"/ping") is None


def test_the_simulated_cards_memory_is_told_as_nvidia_smi_does() -> None:
    async def scenario() -> str:
        async with simulated() as server:
            return (await server.get(b"/sim/gpu")).body.decode()

    header, row = run(scenario()).splitlines()
    assert header.startswith("timestamp, index, name, memory.used [MiB]")
    assert row.endswith("%")


def test_it_says_that_it_is_vllm_032() -> None:
    assert got(b"/version") == {"version": "0.32.0"}


def test_the_model_tells_its_length() -> None:
    (card,) = (got(b"/v1/models") or {})["data"]
    assert (card["id"], card["object"], card["max_model_len"]) == ("tiny", "model", 2048)
    assert card["permission"][0]["object"] == "model_permission"


def test_tokens_become_text_again() -> None:
    status, body = posted(b"/tokenize", {"prompt": "hello there", "return_token_strs": True})
    assert status == 200
    assert (body["count"], body["max_model_len"]) == (2, 2048)
    assert body["token_strs"] == ["hello", " there"]
    assert posted(b"/detokenize", {"tokens": body["tokens"]}) == (200, {"prompt": "hello there"})


def test_a_conversation_is_tokenized_with_its_template() -> None:
    messages = [{"role": "user", "content": "hello there"}]
    _, body = posted(b"/tokenize", {"messages": messages})
    assert body["count"] == 6
    assert body["token_strs"] is None


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (b"/tokenize", {}, 400),
        (b"/tokenize", {"model": "huge", "prompt": "x"}, 404),
        (b"/detokenize", {"tokens": "x"}, 400),
    ],
)
def test_a_bad_request_is_refused(path: bytes, body: object, status: int) -> None:
    assert posted(path, body)[0] == status


def test_a_tokenize_body_without_text_is_refused_for_each_form_it_could_have() -> None:
    _, body = posted(b"/tokenize", {})
    assert body["error"]["param"] == "body.prompt"
    assert "'loc': 'body.messages'" in body["error"]["message"]


def test_faults_set_in_by_request_and_an_empty_body_ends_them() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            fault = await server.client.request("POST", b"/sim/fault", body=b"stall@5")
            assert fault.status == 204
            await asyncio.sleep(4)
            assert not server.engine.snapshot().stalled
            await asyncio.sleep(2)
            exchange = server.start(b"/v1/completions", {"prompt": "hello", "max_tokens": 2})
            await asyncio.sleep(60)
            assert server.engine.snapshot().stalled
            assert (await server.client.request("POST", b"/sim/fault")).status == 204
            assert (await exchange.head()).status == 200

    run(scenario())


def test_a_fault_that_nobody_knows_is_refused() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            answer = await server.client.request("POST", b"/sim/fault", body=b"explode")
            assert answer.status == 400
            assert "none of stall, die" in json.loads(answer.body)["error"]["message"]

    run(scenario())

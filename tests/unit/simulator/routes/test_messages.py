from __future__ import annotations

import json
from typing import Any

from proxy.simulator.faults import Die
from tests.support.simulated_server import event_names, events_of, simulated
from tests.support.virtual_time import run, settle

PATH = b"/v1/messages"
ASK: dict[str, Any] = {
    "model": "simulated",
    "messages": [{"role": "user", "content": "hello there"}],
    "max_tokens": 3,
}


def answered(path: bytes, body: dict[str, Any]) -> tuple[int, Any]:
    async def scenario() -> tuple[int, Any]:
        async with simulated(max_num_queued_reqs=1) as server:
            answer = await server.post(path, body)
            return answer.status, json.loads(answer.body)

    return run(scenario())


def test_an_answer_has_anthropics_form() -> None:
    status, body = answered(PATH, ASK)
    assert status == 200
    assert list(body) == ["id", "type", "role", "content", "model", "stop_reason", "usage"]
    assert body["content"][0]["type"] == "text"
    assert len(body["content"][0]["text"].split()) == 3
    assert body["stop_reason"] == "max_tokens"
    assert body["usage"] == {"input_tokens": 6, "output_tokens": 3}


def test_stop_reasons_have_anthropics_names() -> None:
    _, whole = answered(PATH, ASK)
    word = whole["content"][0]["text"].split()[1]
    _, stopped = answered(PATH, ASK | {"stop_sequences": [word]})
    assert stopped["stop_reason"] == "stop_sequence"
    _, ended = answered(PATH, ASK | {"max_tokens": 1000})
    assert ended["stop_reason"] == "end_turn"


def test_a_stream_has_anthropics_events() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            answer = await server.post(PATH, ASK | {"stream": True})
            assert event_names(answer.body) == [
                *("message_start", "content_block_start"),
                *("content_block_delta",) * 3,
                *("content_block_stop", "message_delta", "message_stop"),
            ]
            events = events_of(answer.body)
            assert [event["type"] for event in events] == event_names(answer.body)
            assert events[0]["message"]["usage"] == {"input_tokens": 6, "output_tokens": 0}
            text = "".join(e["delta"]["text"] for e in events if "text" in e.get("delta", {}))
            assert len(text.split()) == 3
            assert events[-2]["delta"]["stop_reason"] == "max_tokens"
            assert events[-2]["usage"]["output_tokens"] == 3

    run(scenario())


def test_refusals_have_anthropics_form() -> None:
    status, body = answered(PATH, ASK | {"model": "huge"})
    assert status == 404
    assert body == {
        "type": "error",
        "error": {
            "type": "NotFoundError",
            "message": "The model `huge` does not exist. Valid aliases: simulated.",
        },
    }


def test_a_body_that_cannot_be_read_is_refused_in_openais_form() -> None:
    status, body = answered(PATH, {"model": "simulated", "messages": []})
    assert status == 400
    assert body["error"]["param"] == "body.max_tokens"


def test_a_full_queue_is_refused_in_anthropics_form() -> None:
    async def scenario() -> None:
        async with simulated(max_num_queued_reqs=1) as server:
            held = server.start(PATH, ASK | {"max_tokens": 4000})
            await settle()
            answer = await server.post(PATH, ASK)
            assert answer.status == 503
            assert json.loads(answer.body)["type"] == "error"
            held.disconnect()
            await held.ended()

    run(scenario())


def test_the_engines_death_is_an_event_of_the_stream() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            exchange = server.start(PATH, ASK | {"stream": True})
            await settle()
            server.engine.inject(Die())
            body = await exchange.read()
            assert event_names(body) == ["error"]
            assert events_of(body)[0]["error"]["type"] == "InternalServerError"

    run(scenario())


def test_tokens_are_counted_as_a_request_would_use_them() -> None:
    _, counted = answered(b"/v1/messages/count_tokens", ASK | {"system": "Be brief."})
    _, used = answered(PATH, ASK | {"system": "Be brief."})
    assert counted["input_tokens"] == used["usage"]["input_tokens"] > 6
    status, _ = answered(b"/v1/messages/count_tokens", ASK | {"model": "huge"})
    assert status == 404

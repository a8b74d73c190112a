from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.simulator.faults import Die
from tests.support.simulated_server import event_names, events_of, simulated
from tests.support.virtual_time import run, settle

PATH = b"/v1/responses"
ASK: dict[str, Any] = {"model": "simulated", "input": "hello there", "max_output_tokens": 3}


def answered(body: dict[str, Any]) -> tuple[int, Any]:
    async def scenario() -> tuple[int, Any]:
        async with simulated() as server:
            answer = await server.post(PATH, body)
            return answer.status, json.loads(answer.body)

    return run(scenario())


def test_a_cut_response_is_incomplete_and_says_why() -> None:
    status, body = answered(ASK)
    assert (status, body["status"]) == (200, "incomplete")
    assert body["incomplete_details"] == {"reason": "max_output_tokens"}
    (message,) = body["output"]
    assert message["role"] == "assistant"
    assert len(message["content"][0]["text"].split()) == 3
    assert body["usage"]["output_tokens"] == 3
    assert body["usage"]["total_tokens"] == body["usage"]["input_tokens"] + 3


def test_a_response_that_ends_by_itself_is_completed() -> None:
    _, body = answered({"input": "hello"})
    assert (body["status"], body["incomplete_details"]) == ("completed", None)


def test_input_may_be_turns_with_instructions_before_them() -> None:
    turns = [{"role": "user", "content": [{"type": "input_text", "text": "hello there"}]}]
    _, text = answered(ASK)
    _, listed = answered(ASK | {"input": turns})
    _, instructed = answered(ASK | {"instructions": "Be brief."})
    assert listed["usage"] == text["usage"]
    assert instructed["usage"]["input_tokens"] > text["usage"]["input_tokens"]


def test_a_stream_has_named_and_numbered_events() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            answer = await server.post(PATH, ASK | {"stream": True})
            names = event_names(answer.body)
            assert names == [
                *("response.created", "response.in_progress"),
                *("response.output_item.added", "response.content_part.added"),
                *("response.output_text.delta",) * 3,
                *("response.output_text.done", "response.content_part.done"),
                *("response.output_item.done", "response.completed"),
            ]
            events = events_of(answer.body)
            assert [event["type"] for event in events] == names
            assert [event["sequence_number"] for event in events] == list(range(len(events)))
            told = "".join(event.get("delta", "") for event in events)
            assert told == events[-1]["response"]["output"][0]["content"][0]["text"]
            assert b"[DONE]" not in answer.body

    run(scenario())


def test_a_stream_begins_before_the_first_token() -> None:
    async def scenario() -> None:
        async with simulated(max_num_seqs=1) as server:
            held = server.start(PATH, ASK | {"max_output_tokens": 4000})
            await settle()
            waiting = server.start(PATH, ASK | {"stream": True})
            await settle()
            waiting.disconnect()
            assert event_names(await waiting.read()) == ["response.created", "response.in_progress"]
            held.disconnect()
            await held.ended()
            await waiting.ended()

    run(scenario())


def test_the_engines_death_is_an_event_of_the_stream() -> None:
    async def scenario() -> None:
        async with simulated() as server:
            exchange = server.start(PATH, ASK | {"stream": True})
            await settle()
            server.engine.inject(Die())
            body = await exchange.read()
            assert event_names(body)[-1] == "error"
            assert events_of(body)[-1]["error"]["code"] == 500

    run(scenario())


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"model": "huge"}, 404, "The model `huge` does not exist."),
        ({"input": None}, 400, "2 validation errors:"),
        ({"max_output_tokens": 9000}, 400, "max_output_tokens=9000 cannot be greater than"),
    ],
)
def test_a_bad_request_is_refused(change: dict[str, Any], status: int, message: str) -> None:
    answer_status, body = answered(ASK | change)
    assert answer_status == status
    assert body["error"]["message"].startswith(message)

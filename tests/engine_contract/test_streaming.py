"""Server-sent events, as they are framed on the wire."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from tests.support.engine_process import MODEL, wait_until
from tests.support.engine_requests import (
    MESSAGES,
    LooseRequest,
    chat,
    completion,
    json_events,
    named_events,
)

if TYPE_CHECKING:
    import httpx

    from tests.support.engine_process import EngineProcess
    from tests.support.engine_requests import Json


def stream(http: httpx.Client, path: str, body: Json) -> str:
    answer = http.post(path, json={**body, "stream": True})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    return answer.text


def test_a_chat_stream_begins_with_the_role_and_ends_with_the_reason(http: httpx.Client) -> None:
    events = json_events(stream(http, "/v1/chat/completions", chat(3)))
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    assert len({event["id"] for event in events}) == 1
    first, *_, last = [event["choices"][0] for event in events]
    assert first["delta"] == {"role": "assistant", "content": ""}
    assert last["finish_reason"] == "length"
    assert [event["choices"][0]["finish_reason"] for event in events[:-1]].count(None) == len(
        events
    ) - 1


def test_a_completion_stream_ends_with_the_reason(http: httpx.Client) -> None:
    events = json_events(stream(http, "/v1/completions", completion(3)))
    assert {event["object"] for event in events} == {"text_completion"}
    reasons = [event["choices"][0]["finish_reason"] for event in events]
    assert reasons[-1] == "length"
    assert set(reasons[:-1]) <= {None}


def test_usage_that_is_asked_for_comes_last_and_without_choices(http: httpx.Client) -> None:
    events = json_events(
        stream(http, "/v1/chat/completions", chat(3, stream_options={"include_usage": True}))
    )
    *before, last = events
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 3
    assert all(event.get("usage") is None for event in before)


def test_usage_that_is_not_asked_for_does_not_come(http: httpx.Client) -> None:
    events = json_events(stream(http, "/v1/chat/completions", chat(3)))
    assert all(event.get("usage") is None for event in events)
    assert all(event["choices"] for event in events)


def test_usage_can_come_with_every_event(http: httpx.Client) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = json_events(stream(http, "/v1/chat/completions", chat(3, stream_options=options)))
    counts = [event["usage"]["completion_tokens"] for event in events]
    assert counts == sorted(counts)
    assert counts[-1] == 3


def test_every_choice_of_a_stream_has_its_own_reason(http: httpx.Client) -> None:
    events = json_events(stream(http, "/v1/chat/completions", chat(3, n=2)))
    ended = [
        choice["index"]
        for event in events
        for choice in event["choices"]
        if choice["finish_reason"] == "length"
    ]
    assert sorted(ended) == [0, 1]


def test_every_prompt_of_a_stream_has_its_own_index(http: httpx.Client) -> None:
    body = completion(2, prompt=["hello", "there"], stream_options={"include_usage": True})
    events = json_events(stream(http, "/v1/completions", body))
    assert {choice["index"] for event in events for choice in event["choices"]} == {0, 1}
    assert events[-1]["usage"]["completion_tokens"] == 4


def test_the_events_of_a_response_are_named_and_there_is_no_done(http: httpx.Client) -> None:
    body = {"model": MODEL, "input": "hello", "max_output_tokens": 3}
    events = named_events(stream(http, "/v1/responses", body))
    assert all(name == data["type"] for name, data in events)
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    names = [name for name, _ in events]
    assert names[:2] == ["response.created", "response.in_progress"]
    assert names[-1] in ("response.completed", "response.incomplete")


def test_the_events_of_a_message_are_named_and_there_is_no_done(http: httpx.Client) -> None:
    body = {"model": MODEL, "messages": MESSAGES, "max_tokens": 3}
    events = named_events(stream(http, "/v1/messages", body))
    assert all(name == data["type"] for name, data in events)
    names = [name for name, _ in events]
    assert names[:2] == ["message_start", "content_block_start"]
    assert names[-2:] == ["message_delta", "message_stop"]


def test_a_stream_is_chunked_and_its_head_comes_before_its_first_token(
    idle_engine: EngineProcess,
) -> None:
    body = completion(1500, n=idle_engine.max_num_seqs)
    running = LooseRequest(idle_engine.url, "/v1/completions", body)
    waiting = LooseRequest(idle_engine.url, "/v1/chat/completions", chat(1, stream=True))
    with closing(running), closing(waiting):
        head = waiting.read_until(b"\r\n\r\n").lower()
        assert b"transfer-encoding: chunked" in head
        # Whoever has had its one token is gone. vLLM shows a request once it has made a step.
        wait_until(
            lambda: idle_engine.running + idle_engine.waiting > idle_engine.max_num_seqs,
            "one more than can run, after its head",
        )

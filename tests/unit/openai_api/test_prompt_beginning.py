from __future__ import annotations

import json

import pytest

from proxy.openai_api.prompt_beginning import prompt_beginning


@pytest.mark.parametrize("field", ["prompt", "input", "token_ids", "texts", "system"])
def test_what_stands_before_the_prompt_does_not_count(field: str) -> None:
    one = json.dumps({"model": "a", "temperature": 0.1, field: ["Hello"]}).encode()
    other = json.dumps({"model": "b", "stream": True, field: ["Hello"]}).encode()
    assert prompt_beginning(one, 9) == prompt_beginning(other, 9) == b'["Hello"]'


def test_prompts_that_begin_alike_are_alike_up_to_the_given_length() -> None:
    asked = [f'{{"prompt": "{"x" * 50}{end}"}}'.encode() for end in ("a", "b")]
    short, long = ([prompt_beginning(body, most) for body in asked] for most in (51, 52))
    assert short[0] == short[1]
    assert long[0] != long[1]


@pytest.mark.parametrize("body", [b"--boundary\r\naudio", b'{"documents": ["x"]}', b""])
def test_of_a_body_without_a_prompt_its_own_beginning_counts(body: bytes) -> None:
    assert prompt_beginning(body, 10) == body[:10]


def test_a_long_body_is_not_searched_to_its_end() -> None:
    body = b'{"documents": ["' + b"x" * 100_000 + b'"], "prompt": "y"}'
    assert prompt_beginning(bytearray(body), 5) == body[:5]


def chat(*messages: tuple[str, str], **more: object) -> bytes:
    said = [{"role": role, "content": text} for role, text in messages]
    return json.dumps({"model": "m", "messages": said, **more}).encode()


def test_every_turn_of_a_conversation_begins_as_its_first() -> None:
    opening = (("system", "Be brief."), ("user", "Hello"))
    turns = [
        chat(*opening),
        chat(*opening, ("assistant", "Hi"), ("user", "And now?"), stream=True),
        chat(*opening, ("assistant", "Hi"), ("user", "And now?"), ("assistant", "x" * 9000)),
    ]
    assert len({prompt_beginning(turn, 4096) for turn in turns}) == 1


def test_conversations_that_open_with_another_question_differ() -> None:
    asked = [chat(("system", "Be brief."), ("user", question)) for question in ("one", "two")]
    assert prompt_beginning(asked[0], 4096) != prompt_beginning(asked[1], 4096)


def test_no_more_of_an_opening_counts_than_asked_for() -> None:
    asked = [chat(("user", "x" * 100 + end)) for end in ("one", "two")]
    assert prompt_beginning(asked[0], 80) == prompt_beginning(asked[1], 80)


@pytest.mark.parametrize("messages", ["[1, 2]", '[{"role": 7}]', '"text"', "[]", "null"])
def test_messages_that_are_none_count_as_they_stand(messages: str) -> None:
    body = f'{{"messages": {messages}}}'.encode()
    assert prompt_beginning(body, 3) == messages.encode()[:3].ljust(3, b"}")[:3]


def test_a_conversation_too_long_to_parse_in_passing_counts_by_its_first_bytes() -> None:
    body = chat(("user", "x" * 300_000), ("assistant", "y"))
    assert prompt_beginning(body, 2) == b"[{"

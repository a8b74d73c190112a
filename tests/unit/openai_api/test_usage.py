"""`usage` as vLLM 0.32 writes it, found in the last bytes of an answer cut anywhere."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.openai_api.usage import TAIL_BYTES, Usage, UsageTail

COUNTS = {"prompt_tokens": 12, "total_tokens": 212, "completion_tokens": 200}
SEEN = Usage(12, 200)


def read(*chunks: bytes) -> Usage | None:
    tail = UsageTail()
    for chunk in chunks:
        tail.feed(chunk)
    return tail.usage()


def dumped(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def events(*objects: object, done: bool = True) -> bytes:
    lines = [b"data: " + json.dumps(each).encode() + b"\n\n" for each in objects]
    return b"".join(lines) + (b"data: [DONE]\n\n" if done else b"")


CHAT = dumped(
    id="chatcmpl-1",
    choices=[{"index": 0, "message": {"role": "assistant", "content": "word " * 5000}}],
    usage=COUNTS | {"prompt_tokens_details": {"cached_tokens": 8}, "x": None},
    prompt_logprobs=None,
    prompt_token_ids=None,
    kv_transfer_params=None,
)
CHAT_STREAM = events(
    *({"choices": [{"index": 0, "delta": {"content": "w"}}]} for _ in range(100)),
    {"choices": [], "usage": COUNTS},
)
RESPONSE = {
    "id": "resp_1",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "x" * 9000}]}],
    "usage": {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 200,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 212,
    },
    "user": None,
}
RESPONSE_STREAM = (
    b"event: response.created\ndata: "
    + dumped(type="response.created", response=RESPONSE | {"usage": None})
    + b"\n\nevent: response.completed\ndata: "
    + dumped(type="response.completed", response=RESPONSE)
    + b"\n\n"
)
MESSAGES_STREAM = events(
    {"type": "message_start", "message": {"usage": {"input_tokens": 12, "output_tokens": 0}}},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "message_delta", "delta": {}, "usage": {"input_tokens": 12, "output_tokens": 200}},
    {"type": "message_stop"},
    done=False,
)


@pytest.mark.parametrize(
    "body",
    [
        CHAT,
        CHAT_STREAM,
        dumped(**RESPONSE),
        RESPONSE_STREAM,
        dumped(type="message", usage={"input_tokens": 12, "output_tokens": 200}),
        MESSAGES_STREAM,
    ],
    ids=["chat", "chat stream", "response", "response stream", "message", "message stream"],
)
@pytest.mark.parametrize("cut", [1, 7, 100, TAIL_BYTES, 10**6])
def test_every_kind_of_answer_is_read_however_it_is_cut(body: bytes, cut: int) -> None:
    assert read(*(body[at : at + cut] for at in range(0, len(body), cut))) == SEEN


def test_an_embedding_says_nothing() -> None:
    usage = {"prompt_tokens": 7, "total_tokens": 7, "completion_tokens": 0}
    body = dumped(data=[{"embedding": [0.25] * 3000}], usage=usage)
    assert read(body) == Usage(7, 0)
    assert read(dumped(usage={"prompt_tokens": 7, "total_tokens": 9})) == Usage(7, 2)
    assert read(dumped(usage={"prompt_tokens": 7})) == Usage(7, 0)


def test_the_last_of_many_counts() -> None:
    told = [{"choices": [{}], "usage": COUNTS | {"completion_tokens": n}} for n in range(201)]
    assert read(events(*told)) == SEEN
    assert read(events(told[3], done=False)) == Usage(12, 3)


def test_a_last_one_that_is_empty_does_not_hide_the_one_before() -> None:
    assert read(events({"usage": COUNTS}, {"usage": None}, {"usage": {}})) == SEEN


def test_what_the_model_says_is_not_taken_for_it() -> None:
    said = json.dumps({"usage": {"prompt_tokens": 999, "completion_tokens": 999}})
    assert read(dumped(choices=[{"message": {"content": said}}], usage=None)) is None
    assert read(dumped(choices=[{"message": {"content": said}}], usage=COUNTS)) == SEEN


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"data: [DONE]\n\n",
        dumped(error={"message": "no"}),
        dumped(usage=None),
        dumped(usage=[1]),
        dumped(usage={"prompt_tokens": None}),
        dumped(usage={"prompt_tokens": "12"}),
        dumped(usage={"prompt_tokens": True}),
        dumped(usage={"prompt_tokens": -1}),
        dumped(usage={"prompt_tokens": 1.5}),
        dumped(usage={"prompt_tokens": 2**31}),
        CHAT[: CHAT.index(b"total_tokens")],
        b'{"usage":' + b'{"a":' * 800,
        b'{"usage":{"prompt_tokens":' + b"9" * 4000,
        b'{"usage":{"prompt_tokens":' + b"9" * 4050 + b"}}",
        dumped(usage=COUNTS) + b" " * TAIL_BYTES,
    ],
)
def test_what_tells_nothing_is_none(body: bytes) -> None:
    assert read(body) is None


def test_no_more_than_the_tail_is_kept() -> None:
    tail = UsageTail()
    for chunk in (b"x" * 100_000, b"y" * 3000, b"z" * 3000):
        tail.feed(chunk)
        assert len(tail._tail) <= TAIL_BYTES


def test_bytes_that_are_no_utf_8_do_no_harm() -> None:
    assert read(b"\xff\xfe" + dumped(usage=COUNTS) + b"\xff") == SEEN


def test_the_total_is_prompt_and_output() -> None:
    assert SEEN.total_tokens == 212


PIECES = st.sampled_from([b'"usage"', b":", b"{", b"}", b'"prompt_tokens"', b"7", b",", b'"', b"["])


@given(st.lists(st.binary(max_size=50) | PIECES, max_size=60))
def test_nothing_that_an_engine_sends_raises(chunks: list[bytes]) -> None:
    assert read(*chunks) is None or isinstance(read(*chunks), Usage)


@given(
    prompt=st.integers(0, 2**31 - 1),
    completion=st.integers(0, 2**31 - 1),
    before=st.text(max_size=200),
    cuts=st.lists(st.integers(0, 400), max_size=10),
)
def test_what_was_written_is_read(
    prompt: int, completion: int, before: str, cuts: list[int]
) -> None:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    body = dumped(text=before, usage=counts)
    edges = [0, *sorted(cuts), len(body)]
    chunks = [body[a:b] for a, b in pairwise(edges)]
    assert read(*chunks) == Usage(prompt, completion)

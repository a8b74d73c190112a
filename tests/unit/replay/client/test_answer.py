"""What a stream says, however it is cut into pieces."""

from __future__ import annotations

import json
from itertools import count

import pytest

from proxy.replay.client.answer import StreamedAnswer, WholeAnswer
from tests.support.replay_upstream import DONE, ROLE, chat, event, usage, word


def _read(*pieces: bytes, sequences: int = 1) -> StreamedAnswer:
    clock = count(1)
    answer = StreamedAnswer(lambda: float(next(clock)), sequences)
    for piece in pieces:
        assert answer.take(piece, False)
    assert answer.take(b"", True)
    return answer


def test_every_token_has_the_time_of_the_piece_that_brought_it() -> None:
    answer = _read(*chat(3, prompt_tokens=9))
    assert answer.token_times is not None
    assert list(answer.token_times) == [2.0, 3.0, 4.0]
    assert answer.first_byte_s == 1.0
    assert (answer.prompt_tokens, answer.output_tokens) == (9, 3)
    assert answer.is_whole


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_it_does_not_matter_how_a_stream_is_cut(size: int) -> None:
    stream = b": keep-alive\r\n\r\n" + b"".join(chat(4)).replace(b"\n", b"\r\n")
    answer = _read(*(stream[at : at + size] for at in range(0, len(stream), size)))
    assert answer.token_times is not None
    assert (len(answer.token_times), answer.output_tokens, answer.is_whole) == (4, 4, True)


def test_without_usage_chunks_are_counted() -> None:
    assert _read(ROLE, word(), word(finish="stop"), DONE).output_tokens == 2


def test_the_end_without_text_is_no_token_but_steps_without_text_are() -> None:
    completion = [event(choices=[{"text": t, "finish_reason": None}]) for t in ("a", "")]
    assert _read(*completion, DONE).output_tokens == 2
    assert _read(ROLE, word(), word("", finish="stop"), DONE).output_tokens == 1


def test_reasoning_and_tool_calls_are_tokens_too() -> None:
    deltas = [{"reasoning": "hm"}, {"reasoning_content": "hm"}, {"tool_calls": [{"index": 0}]}]
    events = [event(choices=[{"delta": delta}]) for delta in deltas]
    assert _read(ROLE, *events, DONE).output_tokens == 3


def test_a_stream_that_ends_early_or_with_an_error_is_not_whole() -> None:
    assert not _read(ROLE, word()).is_whole
    error = event(error={"message": "engine died", "code": "upstream_closed"})
    assert not _read(ROLE, word(), error, DONE).is_whole


def _words(finish: str | None = None, *, of: int) -> list[bytes]:
    """One step of so many sequences."""
    return [
        event(choices=[{"index": i, "delta": {"content": "a"}, "finish_reason": finish}])
        for i in range(of)
    ]


def test_of_several_sequences_all_tokens_count_and_the_times_are_of_the_first() -> None:
    answer = _read(*_words(of=3), *_words("stop", of=3), sequences=3)
    assert answer.token_times is not None
    assert list(answer.token_times) == [1.0, 4.0]
    assert answer.output_tokens == 6


def test_several_sequences_are_whole_when_all_of_them_are() -> None:
    pieces = _words("stop", of=3)
    assert _read(*pieces, sequences=3).is_whole
    assert not _read(*pieces[:2], sequences=3).is_whole
    assert _read(pieces[0], DONE, sequences=3).is_whole  # an engine that knows no n


def test_what_is_no_event_is_passed_over() -> None:
    assert _read(b"data: {broken\n\n", b"event: x\n", *chat(2), usage(1, 2)).output_tokens == 2


def test_an_answer_in_one_piece_has_a_length_and_no_times() -> None:
    answer = WholeAnswer(lambda: 4.0)
    body = json.dumps({"usage": {"prompt_tokens": 8, "completion_tokens": 5}}).encode()
    answer.take(body[:10], False)
    assert not answer.is_whole
    answer.take(body[10:], True)
    assert (answer.prompt_tokens, answer.output_tokens, answer.token_times) == (8, 5, None)
    assert answer.is_whole
    assert answer.first_byte_s == 4.0

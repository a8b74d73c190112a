from __future__ import annotations

import asyncio

import pytest

from proxy.simulator.engine import EngineDeadError
from proxy.simulator.generation import (
    Generation,
    GenerationAbortedError,
    Output,
    StreamBrokenError,
)
from proxy.simulator.sequence import FinishReason, Sequence
from proxy.simulator.text import Answer
from tests.support.virtual_time import run, settle

ANSWER = Answer.to_prompt(b"hello", 0, 256)


def output(max_tokens: int = 10, stop: list[str] | None = None) -> Output:
    found = ANSWER.stopped_by(stop, max_tokens) if stop else None
    return Output(Sequence(4, max_tokens), ANSWER, found)


def generation(*outputs: Output, n: int = 1, reset_after: int | None = None) -> Generation:
    return Generation(list(outputs), lambda _: None, n, reset_after)


def test_deltas_join_to_the_text() -> None:
    told = output()
    parts = []
    for tokens in (1, 2, 5):
        told.sequence.generated = tokens
        parts.append(told.delta())
    assert "".join(parts) == told.text == ANSWER.text(0, 5)
    assert told.told_tokens == 5


def test_text_ends_before_the_stop_string_and_names_it() -> None:
    words = ANSWER.text(0, 10).split()
    stopped = output(stop=[words[3]])
    parts = []
    for tokens in (2, 3, 4):
        stopped.sequence.generated = tokens
        parts.append(stopped.delta())
    stopped.sequence.finish_reason = FinishReason.STOP
    assert "".join(parts) == stopped.text == " ".join(words[:3]) + " "
    assert stopped.stop_reason == words[3]


def test_a_limit_is_no_stop_reason() -> None:
    cut = output(max_tokens=2, stop=[ANSWER.text(0, 1)])
    cut.sequence.finish_reason = FinishReason.LENGTH
    assert cut.stop_reason is None
    assert cut.finish_reason == "length"


def test_a_prompt_answered_several_times_counts_once() -> None:
    several = generation(output(), output(), output(), output(), n=2)
    for one in several.outputs:
        one.sequence.generated = 3
    assert several.prompt_tokens == 8
    assert several.completion_tokens == 12


def test_done_waits_for_every_output() -> None:
    async def scenario() -> None:
        both = generation(output(), output())
        waiting = asyncio.ensure_future(both.done())
        both.one_finished()
        await settle()
        assert not waiting.done()
        both.one_finished()
        await waiting

    run(scenario())


def test_deltas_come_once_for_whatever_happened_since() -> None:
    async def scenario() -> None:
        both = generation(output(), output())
        seen: list[list[int]] = []

        async def listen() -> None:
            async for index, one in both.deltas():
                seen.append([index, len(one.delta().split())])

        listening = asyncio.ensure_future(listen())
        await settle()
        for one in both.outputs:
            one.sequence.generated = 2
        both.advanced(1)
        both.advanced(0)
        both.advanced(1)
        await settle()
        assert seen == [[1, 2], [0, 2]]
        both.one_finished()
        both.one_finished()
        await listening

    run(scenario())


def test_a_client_that_leaves_ends_the_wait_and_frees_the_engine_once() -> None:
    async def scenario() -> None:
        freed: list[Generation] = []
        left = Generation([output()], freed.append)
        waiting = asyncio.ensure_future(left.done())
        await settle()
        left.abort()
        left.abort()
        with pytest.raises(GenerationAbortedError):
            await waiting
        assert freed == [left]

    run(scenario())


def test_aborting_what_is_over_does_nothing() -> None:
    freed: list[Generation] = []
    over = Generation([output()], freed.append)
    over.one_finished()
    over.abort()
    assert not over.aborted
    assert freed == []


def test_the_engines_death_ends_the_wait() -> None:
    async def scenario() -> None:
        killed = generation(output())
        waiting = asyncio.ensure_future(killed.done())
        await settle()
        killed.engine_died()
        with pytest.raises(EngineDeadError):
            await waiting

    run(scenario())


def test_a_reset_breaks_the_stream_off_after_its_tokens() -> None:
    async def scenario() -> None:
        broken = generation(output(), reset_after=2)
        texts = []

        async def listen() -> None:
            async for _, one in broken.deltas():
                texts.append(one.delta())

        listening = asyncio.ensure_future(listen())
        for tokens in (1, 2, 3):
            broken.outputs[0].sequence.generated = tokens
            broken.advanced(0)
            await settle()
        with pytest.raises(StreamBrokenError):
            await listening
        assert "".join(texts) == ANSWER.text(0, 2)

    run(scenario())

from __future__ import annotations

import asyncio
import json
import time

import pytest

from proxy.edge.large_body import let_go, measure_large, model_in_large_body
from proxy.openai_api.blocks import Blocks
from proxy.openai_api.measure import Measured, RequestShape, UnreadableBodyError, measure
from proxy.openai_api.named_model import model_in_body
from tests.support.virtual_time import run

JSON_TYPE = b"application/json"
LONG = json.dumps({"messages": [{"role": "user", "content": "a long text " * 100_000}]}).encode()


def test_others_have_their_turn_while_a_large_body_is_measured() -> None:
    async def scenario() -> None:
        body = Blocks([LONG])
        measuring = asyncio.create_task(measure_large(RequestShape.CHAT, JSON_TYPE, body))
        turns = 0
        while not measuring.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 10
        assert measuring.result() == measure(RequestShape.CHAT, JSON_TYPE, LONG)

    run(scenario())


def test_what_cannot_be_measured_in_steps_is_all_the_same() -> None:
    async def scenario() -> None:
        numbers = json.dumps({"input": list(range(300_000)), "n": 1}).encode()
        body = Blocks([numbers])
        measured = await measure_large(RequestShape.EMBEDDINGS, JSON_TYPE, body)
        assert measured == measure(RequestShape.EMBEDDINGS, JSON_TYPE, numbers)

    run(scenario())


def test_those_that_cannot_be_measured_in_steps_are_read_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four at once held the interpreter four times as long, and took four times the memory."""
    at_work: list[int] = []
    most: list[int] = []

    def slow(*_: object) -> Measured:
        at_work.append(1)
        most.append(len(at_work))
        time.sleep(0.01)
        at_work.pop()
        return Measured(seats=1)

    async def scenario() -> None:
        body = Blocks([b'{"x":[NaN%b]}' % (b",1" * 600_000)])
        measuring = [measure_large(RequestShape.CHAT, JSON_TYPE, body) for _ in range(4)]
        assert len(await asyncio.gather(*measuring)) == 4
        assert most == [1] * 4

    monkeypatch.setattr("proxy.edge.large_body.measure", slow)
    run(scenario())


def test_a_large_body_that_cannot_be_read_is_told_as_a_small_one_is() -> None:
    async def scenario() -> None:
        broken = LONG + b"}"
        with pytest.raises(UnreadableBodyError) as small:
            measure(RequestShape.CHAT, JSON_TYPE, broken)
        with pytest.raises(UnreadableBodyError) as large:
            await measure_large(RequestShape.CHAT, JSON_TYPE, Blocks([broken]))
        assert str(large.value) == str(small.value)

    run(scenario())


def test_a_large_body_of_more_values_than_may_be_read_is_refused() -> None:
    """60 MiB of one key after the other held the event loop for more than a second."""

    async def scenario() -> None:
        body = Blocks([b'{"prompt":"x"', *[b',"n":1' * 100_000] * 11, b"}"])
        with pytest.raises(UnreadableBodyError, match="too many values"):
            await measure_large(RequestShape.COMPLETIONS, JSON_TYPE, body)

    run(scenario())


def test_as_many_prompts_as_fit_into_a_large_body_are_counted_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """60 MiB of empty ones held it for two seconds, and took 1.3 GiB."""

    def at_once(*_: object) -> None:
        raise AssertionError("all of it is read at once")

    async def scenario() -> None:
        body = Blocks([b'{"prompt":["x"', *[b',""' * 100_000] * 5, b"]}"])
        measured = await measure_large(RequestShape.COMPLETIONS, JSON_TYPE, body)
        assert measured.seats == measured.prompts == 500_001

    monkeypatch.setattr("proxy.edge.large_body.measure", at_once)
    run(scenario())


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (b'{"model":"a","prompt":"%b"}' % (b"long " * 400_000), "a"),
        (b'{"prompt":"%b","model":"a"}' % (b"long " * 400_000), "a"),
        (b'{"model":"a","tokens":[%b1]}' % (b"1," * 1_000_000), "a"),
        (b'{"model":"a","bad":NaN,"prompt":"%b"}' % (b"long " * 400_000), "a"),
        (b'{"model":"%b"}' % (b"long " * 400_000), None),
        (b'{"prompt":"%b"}' % (b"long " * 400_000), None),
        (b"--boundary\r\n" + b"x" * 2_000_000, None),
    ],
    ids=["first", "last", "ids", "nan", "cut", "none", "not JSON"],
)
def test_the_model_in_a_large_body_is_that_which_would_be_found_in_a_small_one(
    body: bytes, model: str | None
) -> None:
    async def scenario() -> None:
        assert await model_in_large_body(Blocks([body])) == model == model_in_body(body)

    run(scenario())


def test_the_model_in_a_large_body_is_looked_for_in_steps() -> None:
    async def scenario() -> None:
        body = Blocks([b'{"model":"a","prompt":"%b"}' % (b"long " * 400_000)])
        looking = asyncio.create_task(model_in_large_body(body))
        turns = 0
        while not looking.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns > 10

    run(scenario())


def test_nor_is_it_looked_for_among_more_values_than_may_be_read() -> None:
    """Four bodies of 60 MiB of keys held the event loop for 1.5 s."""

    async def scenario() -> None:
        body = Blocks([b'{"model":"a"', *[b',"n":1' * 100_000] * 11, b"}"])
        with pytest.raises(UnreadableBodyError, match="too many values"):
            await model_in_large_body(body)

    run(scenario())


def test_a_body_that_is_done_with_is_freed_a_little_at_a_time() -> None:
    async def scenario() -> None:
        body = Blocks([b"x" * 1000] * 10)
        let_go(body.blocks, asyncio.get_running_loop())
        left = [len(body.blocks)]
        while body.blocks:
            await asyncio.sleep(0)
            left.append(len(body.blocks))
        assert left == [6, 2, 0]

    run(scenario())

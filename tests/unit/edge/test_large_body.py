from __future__ import annotations

import asyncio
import json

import pytest

from proxy.edge.large_body import let_go, measure_large
from proxy.openai_api.blocks import Blocks
from proxy.openai_api.measure import RequestShape, UnreadableBodyError, measure
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


def test_a_large_body_that_cannot_be_read_is_told_as_a_small_one_is() -> None:
    async def scenario() -> None:
        broken = LONG + b"}"
        with pytest.raises(UnreadableBodyError) as small:
            measure(RequestShape.CHAT, JSON_TYPE, broken)
        with pytest.raises(UnreadableBodyError) as large:
            await measure_large(RequestShape.CHAT, JSON_TYPE, Blocks([broken]))
        assert str(large.value) == str(small.value)

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

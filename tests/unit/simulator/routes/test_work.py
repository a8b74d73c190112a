from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from proxy.simulator.engine import EngineDeadError
from proxy.simulator.exchange import Exchange
from proxy.simulator.generation import Generation, GenerationAbortedError, Output
from proxy.simulator.routes.work import answer_stream, wait_for_all
from proxy.simulator.sequence import Sequence
from proxy.simulator.text import Answer
from tests.support.asgi_transport import AsgiClient
from tests.support.simulated_server import events_of
from tests.support.virtual_time import now, run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import Receive, Scope, Send


def generation(freed: list[Generation]) -> Generation:
    return Generation([Output(Sequence(4, 10), Answer.to_prompt(b"hello", 0, 256))], freed.append)


def test_waiting_ends_with_the_client() -> None:
    freed: list[Generation] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        await exchange.read_body()
        with pytest.raises(GenerationAbortedError):
            await wait_for_all(exchange, generation(freed))

    async def scenario() -> None:
        exchange = AsgiClient(app).start("POST", b"/", body=b"x")
        await asyncio.sleep(5)
        exchange.disconnect()
        await exchange.ended()
        assert now() == 5.0
        assert len(freed) == 1

    run(scenario())


def test_a_stream_that_fails_still_frees_the_engine() -> None:
    freed: list[Generation] = []

    async def events() -> AsyncGenerator[dict[str, Any], None]:
        yield {"a": 1}
        raise ZeroDivisionError

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        await exchange.read_body()
        with pytest.raises(ZeroDivisionError):
            await answer_stream(exchange, generation(freed), events())

    run(AsgiClient(app).request("POST", b"/", body=b"x"))
    assert len(freed) == 1


def test_a_dead_engine_ends_a_stream_with_an_error_and_done() -> None:
    async def events() -> AsyncGenerator[dict[str, Any], None]:
        yield {"a": 1}
        raise EngineDeadError

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        await exchange.read_body()
        await answer_stream(exchange, generation([]), events())

    answer = run(AsgiClient(app).request("POST", b"/", body=b"x"))
    first, error, done = events_of(answer.body)
    assert (first, error["error"]["code"], done) == ({"a": 1}, 500, "[DONE]")
    assert answer.completed

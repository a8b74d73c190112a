"""What an engine says about itself, or why it did not."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy.replay.engine import Engine, EngineError, Served
from proxy.replay.requests import RequestForm
from proxy.upstream.address import UpstreamAddress
from tests.support.replay_upstream import Scripted, in_turn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

FORM = RequestForm("chat", "m")


def _asked(
    question: Callable[[Engine], Awaitable[Any]], *answers: Scripted | None
) -> tuple[Any, bytes]:
    upstream = in_turn(*answers)
    engine = Engine(upstream, UpstreamAddress.parse("http://engine/v1"), [(b"host", b"engine")])

    async def scenario() -> object:
        return await question(engine)

    answer = asyncio.run(scenario())
    assert upstream.seen[0].headers == [(b"host", b"engine")]
    return answer, bytes(upstream.seen[0].body)


def _json(status: int = 200, **body: Any) -> Scripted:  # noqa: ANN401 - JSON
    return Scripted(status, [], [json.dumps(body).encode()])


MODELS = _json(data=[{"id": "a", "max_model_len": 512}, {"id": "b"}]).pieces[0]


@pytest.mark.parametrize(("model", "served"), [(None, Served("a", 512)), ("b", Served("b", None))])
def test_the_first_model_is_taken_unless_one_is_named(model: str | None, served: Served) -> None:
    answer, _ = _asked(lambda engine: engine.served(model), Scripted(200, [], [MODELS]))
    assert answer == served


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (None, "GET http://engine/v1/models: refused"),
        (_json(401, error="Unauthorized"), "status 401 .*Unauthorized"),
        (_json(502, error={"message": "no\nengine", "code": "x"}), "status 502 no engine$"),
        (_json(data=[]), "lists no model"),
        (_json(other=1), "no list of models"),
        (Scripted(200, [], [b"<html>"]), "no JSON"),
        (Scripted(200, [], [MODELS]), "serves no model 'c', but a, b"),
    ],
)
def test_what_went_wrong_is_one_line(answer: Scripted | None, complaint: str) -> None:
    with pytest.raises(EngineError, match=complaint):
        _asked(
            lambda engine: engine.served("c" if answer and answer.pieces == [MODELS] else None),
            answer,
        )


def test_tokens_are_counted_in_the_form_in_which_they_will_be_sent() -> None:
    count, body = _asked(lambda engine: engine.count(FORM, "hi"), _json(count=9))
    assert count == 9
    assert json.loads(body) == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def test_or_by_the_usage_of_a_short_answer() -> None:
    count, body = _asked(
        lambda engine: engine.count_by_answer(FORM, "hi"), _json(usage={"prompt_tokens": 7})
    )
    assert count == 7
    assert json.loads(body)["max_tokens"] == 1
    assert "stream_options" not in json.loads(body)


@pytest.mark.parametrize("question", [Engine.count, Engine.count_by_answer])
def test_an_engine_that_counts_nothing_says_so(question: Any) -> None:  # noqa: ANN401 - a method
    with pytest.raises(EngineError, match=r"no tokens|no usage"):
        _asked(lambda engine: question(engine, FORM, "hi"), _json(x=1))

from __future__ import annotations

import asyncio
import random

import pytest

from tests.bench.storm.clients import DEAF, ONCE, SDK, Crowd, Manner, Served, Tally
from tests.bench.storm.exchange import NO_ANSWER, Answer
from tests.bench.storm.stub_server import head_only, stub_server

TICKET = Answer(503, headers={"x-should-retry": "true", "retry-after-ms": "10"})
NO_TICKET = Answer(503, headers={"x-should-retry": "false", "retry-after-ms": "10"})


@pytest.mark.parametrize(
    ("manner", "answer", "again"),
    [
        (SDK, TICKET, True),
        (SDK, NO_TICKET, False),
        (SDK, NO_ANSWER, True),
        (SDK, Answer(400), False),
        (DEAF, NO_TICKET, True),
        (DEAF, Answer(400, headers={"x-should-retry": "true"}), False),
        (ONCE, TICKET, False),
        (ONCE, NO_ANSWER, False),
    ],
)
def test_who_tries_again(manner: Manner, answer: Answer, again: bool) -> None:
    rng = random.Random(1)
    assert (manner.delay_s(answer, 0, rng) is not None) is again
    assert manner.delay_s(answer, 2, rng) is None


async def _storm(manner: Manner, answers: list[Answer], per_s: float, seconds: float) -> Tally:
    """Of clients who get these answers one after the other, and then the last one again."""

    def next_answer() -> list[bytes]:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return [head_only(answer.status, answer.headers)]

    async with stub_server(next_answer) as port:
        async with Crowd(port, manner, random.Random(1)) as crowd:
            await crowd.arrive(per_s, seconds)
            assert await crowd.until_gone(5.0) == 0
        return crowd.tally


def test_a_request_is_one_however_often_it_is_tried() -> None:
    tally = asyncio.run(_storm(SDK, [TICKET, Answer(200)], per_s=100.0, seconds=0.3))
    assert tally.offered > 10
    assert tally.tries == tally.offered + 1
    assert len(tally.served) == tally.offered
    assert len(tally.refusals_s) == tally.ends["503"] == 1
    waited = max(tally.served, key=lambda one: one.first_byte_s)
    assert waited.first_byte_s - waited.own_first_byte_s > 0.009


def test_without_a_ticket_nobody_comes_back() -> None:
    tally = asyncio.run(_storm(SDK, [NO_TICKET], per_s=100.0, seconds=0.2))
    assert tally.tries == tally.offered == len(tally.refusals_s) > 5


def test_deaf_clients_come_three_times() -> None:
    tally = asyncio.run(_storm(DEAF, [NO_TICKET], per_s=100.0, seconds=0.2))
    assert tally.tries == 3 * tally.offered > 15


def test_good_is_what_came_in_time() -> None:
    tally = Tally(served=[Served(at, took, 0.0, 0.0) for at, took in ((2.0, 9.9), (2.5, 10.1))])
    assert tally.good_moments() == [2.0]

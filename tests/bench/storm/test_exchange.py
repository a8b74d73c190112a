from __future__ import annotations

import asyncio

import pytest

from tests.bench.storm.exchange import NO_ANSWER, Answer, exchange, get_request
from tests.bench.storm.stub_server import stub_server


async def _answer_to(written: list[bytes], pause_s: float = 0.0, timeout_s: float = 5.0) -> Answer:
    """What is made of these bytes, after which the connection ends."""
    async with stub_server(lambda: written, pause_s) as port:
        return await exchange(port, get_request("/"), timeout_s)


def test_a_whole_answer_is_told_with_both_of_its_times() -> None:
    pieces = [b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\ncontent-length: 4\r\n\r\n", b"full"]
    answer = asyncio.run(_answer_to(pieces, pause_s=0.05))
    assert (answer.status, answer.body, answer.headers["retry-after"]) == (503, b"full", "3")
    assert answer.whole_s - answer.first_byte_s > 0.04


@pytest.mark.parametrize(
    "written",
    [
        [],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n", b"ful"],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nful\r\n"],
        [b"no answer at all\r\n\r\n"],
    ],
    ids=["nothing", "cut short", "without a last chunk", "not HTTP"],
)
def test_what_is_not_whole_is_no_answer(written: list[bytes]) -> None:
    assert asyncio.run(_answer_to(written)) is NO_ANSWER


def test_an_answer_may_end_with_its_connection() -> None:
    answer = asyncio.run(_answer_to([b"HTTP/1.1 200 OK\r\nserver: x\r\n\r\n", b"full"]))
    assert (answer.status, answer.body) == (200, b"full")


def test_a_client_gives_up_in_time() -> None:
    assert asyncio.run(_answer_to([b"HTTP/1.1 200 OK\r\n"], 1.0, timeout_s=0.05)) is NO_ANSWER


def test_nobody_there_is_no_answer() -> None:
    async def ask_nobody() -> Answer:
        async with stub_server(list) as port:
            pass
        return await exchange(port, get_request("/"), 5.0)

    assert asyncio.run(ask_nobody()) is NO_ANSWER

"""The client behaves as the SDK was measured to behave."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import httpx
import pytest

from proxy.replay.sdk_client import Patience, Story, ask, retry_delay_s, should_retry
from tests.support.virtual_time import run

if TYPE_CHECKING:
    from collections.abc import Callable

RNG_SEED = 7


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_overload_and_server_errors_are_tried_again(status: int) -> None:
    assert should_retry(status, {})


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_request_that_is_wrong_is_not_tried_again(status: int) -> None:
    assert not should_retry(status, {})


def test_x_should_retry_overrules_the_status() -> None:
    assert not should_retry(503, {"x-should-retry": "false"})
    assert should_retry(400, {"x-should-retry": "true"})


def test_x_should_retry_is_compared_exactly() -> None:
    assert should_retry(503, {"x-should-retry": "False"})
    assert not should_retry(400, {"x-should-retry": "TRUE"})


def test_milliseconds_win_over_seconds() -> None:
    told = {"retry-after-ms": "250", "retry-after": "3"}
    assert retry_delay_s(0, told, random.Random(RNG_SEED)) == 0.25


@pytest.mark.parametrize("told", ["0", "-1", "61", "soon"])
def test_a_retry_after_out_of_range_means_the_usual_backoff(told: str) -> None:
    delay_s = retry_delay_s(0, {"retry-after": told}, random.Random(RNG_SEED))
    assert 0.375 <= delay_s <= 0.5


def test_the_backoff_doubles_up_to_eight_seconds() -> None:
    rng = random.Random(RNG_SEED)
    for retries, longest_s in [(0, 0.5), (1, 1.0), (4, 8.0), (9, 8.0)]:
        assert 0.75 * longest_s <= retry_delay_s(retries, {}, rng) <= longest_s


def _story(answer: Callable[[httpx.Request], httpx.Response], patience: Patience) -> Story:
    async def main() -> Story:
        transport = httpx.MockTransport(answer)
        async with httpx.AsyncClient(base_url="http://engine", transport=transport) as client:
            return await ask(client, "/v1/completions", {}, patience, random.Random(RNG_SEED))

    return run(main())


def test_a_refused_request_is_tried_again_and_each_try_says_which_it_is() -> None:
    tries: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        tries.append(request.headers["x-stainless-retry-count"])
        return httpx.Response(503 if len(tries) < 3 else 200)

    story = _story(answer, Patience(timeout_s=10, max_retries=2))

    assert tries == ["0", "1", "2"]
    assert (story.status, story.tries, story.refused_tries) == (200, 3, 2)
    assert story.answered


def test_it_gives_up_after_its_last_try() -> None:
    story = _story(lambda _: httpx.Response(503), Patience(timeout_s=10, max_retries=1))
    assert (story.status, story.tries, story.answered) == (503, 2, False)


def test_a_broken_connection_counts_as_a_try_without_a_status() -> None:
    def refuse(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    story = _story(refuse, Patience(timeout_s=10, max_retries=2))
    assert (story.status, story.tries) == (0, 3)


def test_it_waits_as_long_as_it_was_told() -> None:
    answers = iter([httpx.Response(429, headers={"retry-after": "7"}), httpx.Response(200)])
    story = _story(lambda _: next(answers), Patience(timeout_s=10, max_retries=2))
    assert story.duration_s == pytest.approx(7.0)

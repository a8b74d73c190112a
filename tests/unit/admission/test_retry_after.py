from __future__ import annotations

import math
import random

import pytest

from proxy.admission.retry_after import RetryAfter, draw_retry_after

WAITS = [0.0, 0.01, 0.9, 1.0, 2.0, 5.0, 20.0, 36.0, 40.0, 54.9, 55.0, 200.0, 3600.0, math.inf]


def draws(expected_wait_s: float, count: int = 500) -> list[RetryAfter]:
    rng = random.Random(7)
    return [draw_retry_after(expected_wait_s, rng) for _ in range(count)]


@pytest.mark.parametrize("wait_s", WAITS)
def test_it_is_always_within_1_and_55_s(wait_s: float) -> None:
    for drawn in draws(wait_s):
        assert 1 <= drawn.seconds <= 55
        assert 1000 <= drawn.milliseconds <= 55_000


@pytest.mark.parametrize("wait_s", WAITS)
def test_both_headers_name_the_same_moment(wait_s: float) -> None:
    for drawn in draws(wait_s):
        assert drawn.seconds == math.ceil(drawn.milliseconds / 1000)


@pytest.mark.parametrize("wait_s", [2.0, 10.0, 30.0])
def test_it_is_the_expected_wait_give_or_take_half(wait_s: float) -> None:
    seconds = [drawn.milliseconds / 1000 for drawn in draws(wait_s)]
    assert min(seconds) >= 0.5 * wait_s
    assert max(seconds) <= 1.5 * wait_s + 0.001
    assert min(seconds) < 0.6 * wait_s
    assert max(seconds) > 1.4 * wait_s
    assert sum(seconds) / len(seconds) == pytest.approx(wait_s, rel=0.1)


@pytest.mark.parametrize("wait_s", WAITS)
def test_clients_refused_together_never_come_back_together(wait_s: float) -> None:
    drawn = [drawn.milliseconds for drawn in draws(wait_s)]
    assert max(drawn.count(value) for value in drawn) < 15
    assert max(drawn) - min(drawn) > 1800


@pytest.mark.parametrize("wait_s", WAITS)
def test_a_client_that_reads_whole_seconds_meets_at_most_half_of_the_others(wait_s: float) -> None:
    seconds = [drawn.seconds for drawn in draws(wait_s)]
    assert max(seconds.count(value) for value in seconds) <= 0.6 * len(seconds)


def test_an_unknown_wait_is_taken_for_a_few_seconds() -> None:
    seconds = [drawn.seconds for drawn in draws(math.inf)]
    assert min(seconds) >= 2
    assert max(seconds) <= 5


def test_the_same_dice_give_the_same_answer() -> None:
    assert draws(10.0) == draws(10.0)
    assert draw_retry_after(10.0, random.Random(1)) != draw_retry_after(10.0, random.Random(2))


class Drawn(random.Random):
    """Dice that fall on so many seconds, or on the highest that they can."""

    def __init__(self, seconds: float = math.inf) -> None:
        super().__init__()
        self._seconds = seconds

    def uniform(self, a: float, b: float) -> float:
        return min(max(self._seconds, a), b)


def test_nobody_is_called_back_before_the_moment_that_was_drawn() -> None:
    assert draw_retry_after(2.0, Drawn(1.5001)) == RetryAfter(2, 1501)
    assert draw_retry_after(2.0, Drawn(2.0)) == RetryAfter(2, 2000)


def test_the_longest_is_55_s_and_not_a_millisecond_more() -> None:
    assert draw_retry_after(3600.0, Drawn()) == RetryAfter(55, 55_000)

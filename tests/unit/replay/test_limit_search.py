"""A knee is found in a dozen noisy trials, and the smaller limit wins where it is as good."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from proxy.replay.limit_search import LimitSearch, Range

if TYPE_CHECKING:
    from collections.abc import Callable


def search(
    goodput: Callable[[int], float],
    span: Range,
    *,
    noise: float = 0.0,
    seed: int = 1,
    trials: int = 40,
) -> LimitSearch:
    rng = random.Random(seed)
    found = LimitSearch(span, rng, points=5, repeats=3, trials=trials)
    while limits := found.next_round():
        for limit in limits:
            found.record(limit, goodput(limit) * rng.gauss(1, noise))
    return found


def knee_at_24(limit: int) -> float:
    """Rises to 24, is flat to 40, and falls as answers grow too slow."""
    return min(limit, 24) / 24 * max(0.0, 1 - max(0, limit - 40) / 60) * 10


@pytest.mark.parametrize(
    ("span", "points", "limits"),
    [
        (Range(1, 256), 5, [1, 4, 16, 64, 256]),
        (Range(4, 64), 3, [4, 16, 64]),
        (Range(1, 3), 5, [1, 2, 3]),
        (Range(7, 7), 5, [7]),
    ],
)
def test_a_survey_reaches_from_end_to_end_in_even_ratios(
    span: Range, points: int, limits: list[int]
) -> None:
    assert span.survey(points) == limits


def test_a_knee_is_found_within_a_tenth() -> None:
    found = search(knee_at_24, Range(2, 128)).recommendation()
    assert found is not None
    assert 22 <= found.limit <= 27


@pytest.mark.parametrize("seed", range(20))
def test_noise_of_three_percent_does_not_lead_it_astray(seed: int) -> None:
    found = search(knee_at_24, Range(2, 128), noise=0.03, seed=seed).recommendation()
    assert found is not None
    assert knee_at_24(found.limit) >= 0.93 * 10
    assert found.limit <= 42


def test_on_a_plateau_the_smallest_limit_is_recommended() -> None:
    found = search(lambda _limit: 5.0, Range(8, 64)).recommendation()
    assert found is not None
    assert found.limit == 8
    assert found.as_good[-1] == 64


def test_what_is_in_question_is_tried_as_often_as_asked() -> None:
    done = search(knee_at_24, Range(2, 128), noise=0.01)
    found = done.recommendation()
    assert found is not None
    assert len(done.scores[found.limit]) >= 3
    assert len(done.scores[found.best]) >= 3


def test_no_more_trials_than_allowed() -> None:
    done = search(knee_at_24, Range(2, 128), trials=7)
    assert sum(map(len, done.scores.values())) == 7
    assert done.recommendation() is not None


def test_a_trial_that_tells_nothing_is_spent_and_its_limit_stays_in_question() -> None:
    left = LimitSearch(Range(4, 4), random.Random(1), points=5, repeats=1, trials=3)
    assert left.next_round() == [4]
    left.spend()
    assert not left.is_surveyed
    assert left.next_round() == [4]
    left.record(4, 1.0)
    assert left.is_surveyed
    assert left.is_settled
    left.spend()
    assert left.next_round() == []


def test_a_search_is_settled_when_nothing_is_in_question_and_not_when_trials_ran_out() -> None:
    assert search(knee_at_24, Range(2, 128)).is_settled
    cut = search(knee_at_24, Range(2, 128), trials=7)
    assert cut.is_surveyed
    assert not cut.is_settled
    assert not search(knee_at_24, Range(2, 128), trials=2).is_surveyed


def test_with_hardly_any_trials_the_ends_come_first() -> None:
    assert set(search(knee_at_24, Range(2, 128), trials=2).scores) == {2, 128}


def test_the_trials_of_a_round_come_in_random_order() -> None:
    orders = {
        tuple(
            LimitSearch(Range(1, 256), random.Random(s), points=5, repeats=1, trials=9).next_round()
        )
        for s in range(9)
    }
    assert len(orders) > 3


def test_where_nothing_is_good_nothing_is_recommended() -> None:
    done = search(lambda _limit: 0.0, Range(2, 128))
    assert done.recommendation() is None
    assert sum(map(len, done.scores.values())) == 5

from __future__ import annotations

import pytest

from tests.bench.arithmetic import Spread, added, percentile, ratios


def test_a_spread_is_the_middle_round_with_the_least_and_the_most() -> None:
    assert Spread.of([3.0, 1.0, 2.0], 3) == Spread(median=2.0, least=1.0, most=3.0)


def test_no_rounds_have_no_spread() -> None:
    assert Spread.of([], 3) is None


def test_rounds_without_a_value_are_told_of() -> None:
    assert Spread.of([1.0, 3.0], 5) == Spread(2.0, 1.0, 3.0, missing=3)


@pytest.mark.parametrize(("share", "value"), [(0.5, 2.0), (0.75, 3.0), (0.99, 4.0), (0.0, 1.0)])
def test_a_percentile_is_a_value_that_was_measured(share: float, value: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], share) == value


def test_a_ratio_is_taken_within_a_round() -> None:
    assert ratios({1: 10.0, 2: 30.0}, {1: 5.0, 2: 10.0}) == [2.0, 3.0]


def test_a_round_that_only_one_of_them_has_gives_no_ratio() -> None:
    assert ratios({1: 10.0, 2: 30.0}, {2: 10.0, 3: 1.0}) == [3.0]


def test_nothing_and_less_than_nothing_are_no_base_for_a_ratio() -> None:
    assert ratios({1: 10.0, 2: 10.0}, {1: 0.0, 2: -1.0}) == []


def test_what_is_added_is_taken_within_a_round() -> None:
    assert added({1: 5.0, 2: 7.0, 3: 9.0}, {1: 1.0, 3: 2.0}) == {1: 4.0, 3: 7.0}

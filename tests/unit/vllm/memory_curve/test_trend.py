from __future__ import annotations

import pytest

from proxy.vllm.memory_curve.trend import trend_of


def test_a_line_is_found_through_points_that_lie_on_it() -> None:
    trend = trend_of([(x, 3 + 2 * x) for x in (10.0, 11.0, 15.0)])
    assert trend.slope == pytest.approx(2)
    assert trend.at(20.0) == pytest.approx(43)


def test_a_quarter_of_the_points_may_be_anywhere() -> None:
    points = [(float(x), 1000.0 if x % 4 == 3 else 2.0 * x) for x in range(40)]
    assert trend_of(points).slope == pytest.approx(2, rel=0.2)


def test_many_points_are_thinned_and_say_the_same() -> None:
    trend = trend_of([(float(x), 0.5 * x) for x in range(100_000)])
    assert trend.slope == pytest.approx(0.5)


def test_one_moment_has_no_slope() -> None:
    assert trend_of([(5.0, 7.0), (5.0, 7.0)]).at(100.0) == 7.0

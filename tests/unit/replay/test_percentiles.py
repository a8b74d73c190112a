"""Percentiles are numpy's; histograms stand for values within half a percent."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.replay.percentiles import (
    LogHistogram,
    Percentiles,
    bucket_of,
    middle_of,
    percentile,
    percentiles,
)


@pytest.mark.parametrize(
    ("p", "expected"), [(0, 1.0), (50, 2.5), (90, 3.7), (95, 3.85), (99, 3.97), (100, 4.0)]
)
def test_a_percentile_lies_between_its_neighbours_as_numpy_has_it(
    p: float, expected: float
) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], p) == pytest.approx(expected)


def test_one_value_is_every_percentile() -> None:
    assert percentiles([3.0]) == Percentiles(p50=3.0, p90=3.0, p95=3.0, p99=3.0, mean=3.0)


def test_of_nothing_there_are_no_percentiles() -> None:
    assert percentile([], 50) is None
    assert percentiles([]) == LogHistogram().percentiles() == Percentiles()


def test_values_need_no_order() -> None:
    assert percentiles([4.0, 1.0, 3.0, 2.0]).p50 == 2.5


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_a_histogram_gives_a_value_back_within_half_a_percent(value: float) -> None:
    assert middle_of(bucket_of(value)) == pytest.approx(value, rel=0.00501)


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_what_no_clock_can_measure_counts_as_a_microsecond(value: float) -> None:
    assert middle_of(bucket_of(value)) == pytest.approx(1e-6, rel=0.01)


def test_a_histogram_of_many_values_agrees_with_their_percentiles() -> None:
    rng = random.Random(1)
    values = [rng.lognormvariate(-4, 1) for _ in range(20_000)]
    halves = LogHistogram(), LogHistogram()
    halves[0].add_all(values[:7_000])
    halves[1].add_all(values[7_000:])
    halves[0].merge(halves[1])
    exact, counted = percentiles(values), halves[0].percentiles()
    for name in ("p50", "p90", "p95", "p99"):
        assert getattr(counted, name) == pytest.approx(getattr(exact, name), rel=0.006)
    assert counted.mean == pytest.approx(math.fsum(values) / len(values))
    assert len(halves[0].counts) < 1000

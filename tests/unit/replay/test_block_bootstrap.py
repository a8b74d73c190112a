"""Intervals come from blocks of time, for requests of one moment share a queue."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from proxy.replay.block_bootstrap import (
    RESAMPLES,
    Blocks,
    BlockValues,
    Interval,
    blocks_for,
    buckets_by_block,
    draws,
    interval,
    resampled_sum,
)
from proxy.replay.percentiles import bucket_of


@pytest.mark.parametrize(
    ("duration_s", "in_system_s", "count", "long_enough"),
    [
        (600.0, 1.0, 60, True),  # never more than sixty
        (600.0, 10.0, 30, True),  # twice the time in the system
        (60.0, 10.0, 10, False),  # never fewer than ten
        (60.0, 0.0, 60, True),
        (0.0, 0.0, 10, True),
    ],
)
def test_a_block_is_as_long_as_a_queue_remembers_if_the_run_allows(
    duration_s: float, in_system_s: float, count: int, long_enough: bool
) -> None:
    blocks = blocks_for(duration_s, in_system_s)
    assert (blocks.count, blocks.long_enough) == (count, long_enough)


def test_how_long_a_run_must_be_is_known_from_how_long_a_request_takes() -> None:
    too_short = blocks_for(60.0, 10.0)
    assert too_short.shortest_run_s == 200.0
    assert blocks_for(too_short.shortest_run_s, 10.0).long_enough


def test_every_arrival_falls_into_a_block() -> None:
    blocks = blocks_for(100.0, 5.0)
    assert [blocks.of(t) for t in (0.0, 9.99, 10.0, 99.9, 100.0, 100.1)] == [0, 0, 1, 9, 9, 9]


def test_a_draw_takes_as_many_blocks_as_there_are_and_a_seed_repeats_it() -> None:
    blocks = blocks_for(100.0, 5.0)
    drawn = draws(blocks, random.Random(3), 20)
    assert {sum(weights) for weights in drawn} == {blocks.count}
    assert drawn == draws(blocks, random.Random(3), 20)
    assert drawn != draws(blocks, random.Random(4), 20)


TWO_BLOCKS = Blocks(2, 5.0)


def values_of(*pairs: tuple[float, int]) -> BlockValues:
    """From (value, block)."""
    counted = Counter((bucket_of(value), block) for value, block in pairs)
    return BlockValues.from_buckets(counted, TWO_BLOCKS)


def about(*values: float) -> object:
    return pytest.approx(values, rel=0.006)


def test_with_every_block_drawn_once_a_percentile_is_that_of_the_values() -> None:
    values = values_of((1.0, 0), (2.0, 1), (3.0, 0), (4.0, 1), (5.0, 0))
    assert values.resampled_percentiles([1, 1], [0.5, 0.9]) == about(3.0, 5.0)


def test_a_block_that_was_not_drawn_has_no_say() -> None:
    values = values_of((1.0, 0), (2.0, 1), *[(3.0, 1)] * 5)
    assert values.resampled_percentiles([2, 0], [0.5]) == about(1.0)
    assert values.resampled_percentiles([0, 2], [0.5]) == about(3.0)
    assert values.resampled_percentiles([0, 0], [0.5]) == [None]
    assert values_of().resampled_percentiles([1, 1], [0.5]) == [None]


def test_values_are_counted_by_bucket_and_block() -> None:
    blocks = blocks_for(10.0, 0.5)
    counted = Counter(buckets_by_block([(0.5, 2.0), (0.6, 2.0), (9.0, 1.0)], blocks))
    assert counted == {(bucket_of(2.0), 0): 2, (bucket_of(1.0), 9): 1}


def test_a_sum_weighs_each_block_by_how_often_it_was_drawn() -> None:
    assert resampled_sum([1.0, 10.0, 100.0], [2, 0, 1]) == 102.0


def test_an_interval_holds_the_middle_95_percent() -> None:
    assert interval([i / 1000 for i in range(1001)]) == Interval(0.025, 0.975)


def test_nothing_is_said_where_hardly_any_resample_had_a_value() -> None:
    assert interval([1.0] * (RESAMPLES // 2 - 1) + [None] * RESAMPLES) is None


def test_neighbours_that_are_alike_widen_the_interval() -> None:
    """Ten stretches of ten equal values tell as much as ten values, not as a hundred."""
    rng = random.Random(5)
    levels = [rng.gauss(10, 1) for _ in range(10)]
    alike = [level for level in levels for _ in range(10)]
    mixed = rng.sample(alike, k=100)

    def width(values: list[float]) -> float:
        blocks = blocks_for(100.0, 5.0)
        sums = [0.0] * blocks.count
        for second, value in enumerate(values):
            sums[blocks.of(second)] += value
        found = interval(resampled_sum(sums, w) for w in draws(blocks, random.Random(1)))
        assert found is not None
        return found.high - found.low

    assert width(alike) > 2 * width(mixed)

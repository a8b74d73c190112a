"""Of memory: a leak is told from noise, and noise from a leak."""

from __future__ import annotations

import random

import pytest

from tests.soak.slope import BLOCKS, LEAST_READINGS, block_medians, judged, slope

MIB = 1024 * 1024


def half_an_hour(a_second: float, noise: float = 0.0, seed: int = 1) -> list[tuple[float, float]]:
    """Readings that climb and waver; each resembles the one before it."""
    dice, readings, off = random.Random(seed), [], 0.0
    for at in range(1800):
        off = 0.98 * off + dice.gauss(0, noise)
        readings.append((float(at), 100 * MIB + a_second * at + off))
    return readings


def test_a_line_has_the_slope_that_it_has() -> None:
    found = slope(half_an_hour(1_000))
    assert found is not None
    assert found.per_s == pytest.approx(1_000)
    assert found.low == found.per_s == found.high


def test_a_climb_within_the_noise_is_noise() -> None:
    for seed in range(20):
        found = slope(half_an_hour(0, noise=50_000, seed=seed))
        assert found is not None
        assert found.is_noise(floor=8 * 200), seed


@pytest.mark.parametrize("noise", [0, 5_000, 20_000])
def test_a_leak_of_a_hundred_bytes_for_each_of_two_hundred_requests_a_second_is_none(
    noise: float,
) -> None:
    for seed in range(20):
        found = slope(half_an_hour(20_000, noise=noise, seed=seed))
        assert found is not None
        assert not found.is_noise(floor=8 * 200), seed


def test_the_interval_has_the_true_slope_in_it_nearly_always() -> None:
    dice = random.Random(3)
    hits = 0
    for _ in range(100):
        readings = [(float(at), 5.0 * at + dice.gauss(0, 100)) for at in range(LEAST_READINGS)]
        found = slope(readings)
        assert found is not None
        hits += found.low <= 5.0 <= found.high
    assert hits >= 90


def test_what_fills_up_in_the_first_third_is_no_leak() -> None:
    readings = [(float(at), min(at, 600) * 100_000.0) for at in range(1800)]
    found = slope(readings)
    assert found is not None
    assert found.per_s == 0


def test_one_wild_reading_changes_nothing() -> None:
    readings = half_an_hour(0)
    readings[1700] = (1700.0, 10_000.0 * MIB)
    found = slope(readings)
    assert found is not None
    assert found.per_s == 0


def test_a_run_that_is_too_short_is_not_judged() -> None:
    assert slope(half_an_hour(1_000)[: LEAST_READINGS - 1]) is None


def test_blocks_are_even_and_leave_nothing_out() -> None:
    readings = judged(half_an_hour(1))
    assert len(readings) == 1200
    blocks = block_medians(readings, BLOCKS)
    assert len(blocks) == BLOCKS
    assert blocks[0][0] == 619.5
    assert blocks[-1][0] == 1779.5

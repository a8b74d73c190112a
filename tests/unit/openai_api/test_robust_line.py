from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.openai_api.robust_line import RobustLine


def taught(line: RobustLine, pairs: int, intercept: float, slope: float, seed: int = 1) -> None:
    rng = random.Random(seed)
    for _ in range(pairs):
        x = math.exp(rng.uniform(4, 11))
        line.learn(x, (intercept + slope * x) * rng.uniform(0.9, 1.1))


def test_it_starts_as_it_is_given() -> None:
    line = RobustLine(10, 0.25)
    assert line.at(0) == 10
    assert line.at(1000) == 260


@pytest.mark.parametrize(("intercept", "slope"), [(0, 0.25), (30, 0.4), (300, 0.1)])
def test_it_finds_both_ends(intercept: float, slope: float) -> None:
    line = RobustLine(0, 0.25)
    taught(line, 100, intercept, slope)
    assert line.slope == pytest.approx(slope, rel=0.12)
    assert line.intercept == pytest.approx(intercept, rel=0.15, abs=3)


def test_short_prompts_alone_do_not_spoil_long_ones() -> None:
    """A template of 40 tokens makes short prompts look like a token a byte."""
    rng = random.Random(1)
    line = RobustLine(0, 0.25)
    for _ in range(200):
        x = rng.uniform(40, 200)
        line.learn(x, 40 + 0.25 * x + rng.gauss(0, 3))
    assert line.at(400_000) == pytest.approx(100_000, rel=0.5)


def test_pairs_of_one_size_are_met_at_that_size() -> None:
    line = RobustLine(0, 0.25)
    for _ in range(100):
        line.learn(1000, 400)
    assert line.at(1000) == pytest.approx(400, rel=0.03)


@pytest.mark.parametrize("wrong", [0.001, 50.0])
def test_one_pair_that_is_far_off_hardly_moves_it(wrong: float) -> None:
    line = RobustLine(0, 0.25)
    taught(line, 100, 0, 0.25)
    before = line.at(10_000)
    line.learn(10_000, before * wrong)
    assert line.at(10_000) == pytest.approx(before, rel=0.05)


def test_one_in_ten_that_is_far_off_is_outvoted() -> None:
    line = RobustLine(0, 0.25)
    rng = random.Random(3)
    for turn in range(200):
        x = rng.uniform(500, 50_000)
        line.learn(x, 0.25 * x * (0.01 if turn % 10 == 0 else 1.0))
    assert line.at(10_000) == pytest.approx(2500, rel=0.15)


def test_what_has_changed_is_followed() -> None:
    line = RobustLine(0, 0.25)
    taught(line, 300, 0, 0.4)
    taught(line, 80, 0, 0.167, seed=2)
    assert line.at(10_000) == pytest.approx(1670, rel=0.2)


@given(st.lists(st.tuples(st.floats(1e-3, 1e8), st.floats(0, 2.0**31)), max_size=80))
def test_it_stays_finite_positive_and_rising(pairs: list[tuple[float, float]]) -> None:
    line = RobustLine(0, 0.25)
    for x, y in pairs:
        line.learn(x, y)
        assert 0 <= line.at(0) < line.at(1) < line.at(1e8) < math.inf

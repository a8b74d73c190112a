from __future__ import annotations

import pytest

from tests.bench.storm.rate import faded_rate


@pytest.mark.parametrize("together", [1, 7])
@pytest.mark.parametrize("first_at", [0.0, 0.3, 0.6, 0.9])
def test_it_does_not_matter_how_many_come_at_the_same_moment(
    together: int, first_at: float
) -> None:
    every_s = together / 8.0
    moments = [first_at + every_s * (n // together) for n in range(600)]
    assert faded_rate(moments, 2.0, 40.0) == pytest.approx(8.0, rel=0.005)


def test_what_is_outside_does_not_count() -> None:
    assert faded_rate([1.0, 2.0, 10.0, 11.0], 2.0, 10.0) == 0.0


def test_a_short_window_fades_too() -> None:
    assert faded_rate([0.5], 0.0, 1.0) == 2.0

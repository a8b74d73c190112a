"""The rules atop proxy/vllm/memory_curve/shape.py, one curve or more for each."""

from __future__ import annotations

import pytest

from proxy.vllm.memory_curve.lives import lives_of
from proxy.vllm.memory_curve.reader import read_memory_curve
from proxy.vllm.memory_curve.series import MemorySeries
from proxy.vllm.memory_curve.shape import Shape, Verdict, shape_of
from tests.support.memory_curves import CARD_MIB, GIB, MIB, START_UP, curve, wavy


def verdict(used_mib: list[float], *, total_known: bool = True) -> Verdict:
    """Of the first life."""
    series = MemorySeries()
    for sample in read_memory_curve(curve(used_mib)):
        series.add(sample)
    scale = CARD_MIB * MIB if total_known else series.peak or 0
    return shape_of(lives_of(series.bins, scale)[0], scale, total_known=total_known)


GONE = [4.0] * 5
# A simulated engine that had just started, once a second, until it ran out of memory.
HIGH_WATER_MARKS = [18641.0, *[18747.0] * 3, *[20085.0] * 5, *[21116.0] * 8]
CLIMBING = [18000.0 + 20 * i for i in range(300)]
CURVES = {
    "a spike that comes back": (wavy(18000, 100) + [23800.0] * 3 + wavy(18000, 100), Shape.SPIKE),
    "a spike among six samples": ([20000.0, 20010, 23900, 20015, 20010, 20000], Shape.SPIKE),
    "a spike of one sample in a day": ([*wavy(16000, 9000), 21000, *wavy(16000, 999)], Shape.SPIKE),
    "low when idle, full in bursts": (([5000.0] * 30 + [23000.0] * 40) * 4 + [5000], Shape.SPIKE),
    "one long burst": ([5000.0] * 30 + [23000.0] * 40 + [5000.0] * 20, Shape.SPIKE),
    "a climb": (CLIMBING, Shape.CLIMB),
    "a climb in five samples": ([12000.0, 14000, 16000, 18000, 20000], Shape.CLIMB),
    "a climb in stairs": ([x for k in range(6) for x in wavy(17000 + k * 1000, 60)], Shape.CLIMB),
    "a climb after the start": ([*START_UP, *[22000 + i * 8.0 for i in range(200)]], Shape.CLIMB),
    "a climb to the end": ([*GONE, 9000, *[14000 + i * 40.0 for i in range(240)], 4], Shape.CLIMB),
    "a climb with small spikes": (
        [16000.0 + i * 2 + 4000 * (i % 100 == 50) for i in range(3000)],
        Shape.CLIMB,
    ),
    "a small climb under large spikes": (
        [16000.0 + i * 0.3 + 7000 * (i % 100 == 50) for i in range(3000)],
        Shape.SPIKE,
    ),
    "V1: up at the start, then flat": ([*START_UP, *[22000.0] * 300], Shape.FLAT),
    "V1, a short look": ([*START_UP, *[22000.0] * 30, *GONE], Shape.FLAT),
    "flat with a tremble": (wavy(20000, 500, by=100), Shape.FLAT),
    "flat on the edge": (wavy(24200, 200, by=5), Shape.FLAT_HIGH),
    "one step that stays": (wavy(19000, 100) + [21000.0] * 100, Shape.STEP),
    "high-water marks of a start, then gone": ([*HIGH_WATER_MARKS, 4], Shape.STEP),
    "high-water marks of a start": (HIGH_WATER_MARKS, Shape.STEP),
    "a short climb that came to a level": (
        [*[20000.0 + 70 * i for i in range(10)], *[20630.0] * 8],
        Shape.STEP,
    ),
    "a climb of 59 s": ([18000.0 + 80 * i for i in range(60)], Shape.CLIMB),
    "a climb in stairs of 50 s": (
        [x for k in range(5) for x in wavy(17000 + k * 1000, 10)],
        Shape.CLIMB,
    ),
    "a minute, level at its end": (
        [*[18000.0 + 100 * i for i in range(30)], *[20900.0] * 31],
        Shape.CLIMB,
    ),
    "a jump, then gone": ([*wavy(19000, 100), 23500, 24200, *GONE], Shape.LATE_JUMP),
    "a jump at the end of the file": ([*wavy(19000, 100), 24200], Shape.STEP),
    "dead while loading": ([*GONE, *[400.0 * i for i in range(60)], *GONE], Shape.START_UP),
    "three samples": ([20000.0, 20000, 20000], Shape.TOO_SHORT),
}


@pytest.mark.parametrize(("used_mib", "shape"), CURVES.values(), ids=CURVES.keys())
def test_each_curve_has_its_shape(used_mib: list[float], shape: Shape) -> None:
    assert verdict(used_mib).shape is shape


@pytest.mark.parametrize(("used_mib", "shape"), CURVES.values(), ids=CURVES.keys())
def test_the_shape_is_the_same_where_the_card_is_unknown_but_for_the_edge(
    used_mib: list[float], shape: Shape
) -> None:
    expected = Shape.FLAT if shape is Shape.FLAT_HIGH else shape
    assert verdict(used_mib, total_known=False).shape is expected


def test_a_climb_is_told_in_bytes_and_seconds() -> None:
    seen = verdict(CLIMBING)
    assert seen.rise == pytest.approx(5980 * MIB)
    assert (seen.base, seen.duration_s) == (18000 * MIB, 299)


def test_spikes_are_counted_and_the_highest_is_shown() -> None:
    seen = verdict([*wavy(18000, 50), 21000.0, *wavy(18000, 50), 23800, 23000, *wavy(18000, 50)])
    assert (seen.spikes, seen.longest_s, seen.top.high_line) == (2, 1.0, 103)
    assert seen.base == pytest.approx(18000 * MIB, abs=0.1 * GIB)

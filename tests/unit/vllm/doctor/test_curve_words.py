from __future__ import annotations

import pytest

from proxy.vllm.doctor.curve_words import in_words, span
from proxy.vllm.memory_curve.lives import lives_of
from proxy.vllm.memory_curve.reader import read_memory_curve
from proxy.vllm.memory_curve.series import MemorySeries
from proxy.vllm.memory_curve.shape import shape_of
from tests.support.memory_curves import CARD_MIB, MIB, START_UP, curve, wavy


def sentence(used_mib: list[float], *, total_known: bool = True) -> str:
    series = MemorySeries()
    for sample in read_memory_curve(curve(used_mib)):
        series.add(sample)
    scale = CARD_MIB * MIB if total_known else series.peak or 0
    series.total = scale if total_known else None
    lives = lives_of(series.bins, scale)
    verdicts = [(life, shape_of(life, scale, total_known=total_known)) for life in lives]
    return in_words(0, series, verdicts, verdicts[-1][1])


@pytest.mark.parametrize(
    ("used_mib", "words"),
    [
        ([*wavy(18432, 50), 23552, 23552, *wavy(18432, 50)], "a peak over a level of 17.9"),
        ([*wavy(18432, 50), 23552, 23552, *wavy(18432, 50)], "at most 1 s long, up to 23.00 GiB"),
        ([18000 + 20.0 * i for i in range(300)], "climbed by 5.84 GiB in 5 min"),
        (wavy(22000, 50), "flat at 21.47 GiB"),
        (wavy(24200, 50, by=5), "on the edge"),
        (wavy(22000, 50), "(peak 89.6% of 24.00 GiB)"),
        ([*wavy(19000, 50), *[21000.0] * 50], "keeps what a burst once took"),
        ([*wavy(19000, 50), 24000, 4], "just before it was given back"),
        ([4.0, 4, *[400.0 * i for i in range(60)], 4], "still loading"),
        ([20000.0], "too few samples"),
        ([*START_UP, *[22000.0] * 50, *START_UP, *[22000.0] * 50], "given back once"),
    ],
)
def test_each_shape_has_its_sentence(used_mib: list[float], words: str) -> None:
    assert words in sentence(used_mib)


def test_a_peak_near_the_size_of_a_common_card_is_said_to_be_near_it() -> None:
    assert "if the card has 24,564 MiB" in sentence(wavy(24000, 50), total_known=False)
    assert "if the card" not in sentence(wavy(22000, 50), total_known=False)


@pytest.mark.parametrize(("seconds", "words"), [(3, "3 s"), (300, "5 min"), (9000, "2.5 h")])
def test_a_time_is_told_in_the_unit_that_fits(seconds: float, words: str) -> None:
    assert span(seconds) == words

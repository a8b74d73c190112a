from __future__ import annotations

from proxy.vllm.memory_curve.reader import read_memory_curve
from proxy.vllm.memory_curve.series import MemorySeries
from tests.support.memory_curves import CARD_MIB, HEADER, MIB, curve, stamp


def series(used_mib: list[float], most_bins: int = 1024) -> MemorySeries:
    made = MemorySeries(most_bins)
    for sample in read_memory_curve(curve(used_mib)):
        made.add(sample)
    return made


def test_each_sample_is_a_bin_while_there_are_few() -> None:
    made = series([3, 1, 2])
    assert [each.mean for each in made.bins] == [3 * MIB, 1 * MIB, 2 * MIB]
    assert (made.samples, made.peak, made.total) == (3, 3 * MIB, CARD_MIB * MIB)


def test_many_samples_take_no_more_room_and_keep_peak_low_and_line() -> None:
    made = series([50.0] * 70 + [99.0, 1.0] + [50.0] * 928, most_bins=16)
    assert len(made.bins) <= 16
    assert made.samples == sum(each.count for each in made.bins) == 1000
    top = max(made.bins, key=lambda each: each.high)
    assert (top.high, top.low, top.high_line) == (99 * MIB, 1 * MIB, 72)
    assert top.high_text.startswith(stamp(70))
    assert [a.last_s < b.first_s for a, b in zip(made.bins, made.bins[1:], strict=False)]


def test_a_sample_that_does_not_tell_its_memory_is_passed_over() -> None:
    made = MemorySeries()
    for sample in read_memory_curve([HEADER, f"{stamp(0)}, [N/A], 24576 MiB, 0 %"]):
        made.add(sample)
    assert (made.samples, made.peak, made.total) == (0, None, 24576 * MIB)

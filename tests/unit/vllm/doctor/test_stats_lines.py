"""The periodic lines of V0 and V1."""

import pytest

from proxy.vllm.doctor.evidence import StatsSummary
from proxy.vllm.doctor.stats_lines import StatsSum, read_stats

V1 = (
    b"Engine 000: Avg prompt throughput: 12.5 tokens/s, Avg generation throughput: 4.0 tokens/s, "
    b"Running: 12 reqs, Waiting: 3 reqs, GPU KV cache usage: 45.5%, Prefix cache hit rate: 1.0%"
)
V0 = (
    b"Avg prompt throughput: 12.5 tokens/s, Avg generation throughput: 4.0 tokens/s, Running: "
    b"12 reqs"
    b", Swapped: 1 reqs, Pending: 3 reqs, GPU KV cache usage: 45.5%, CPU KV cache usage: 9.0%."
)


@pytest.mark.parametrize(("line", "swapped"), [(V1, None), (V0, 1)])
def test_both_engines_lines_are_read(line: bytes, swapped: int | None) -> None:
    stats = read_stats(b"INFO 05-20 12:00:00 [loggers.py:1] " + line)
    assert stats is not None
    assert (stats.running, stats.waiting, stats.kv_usage) == (12, 3, 0.455)
    assert stats.swapped == swapped


def test_newer_lines_count_preemptions() -> None:
    line = V1.replace(b"Waiting: 3 reqs, ", b"Waiting: 3 reqs, Preemptions: 7, ")
    stats = read_stats(line)
    assert stats is not None
    assert stats.preemptions == 7


def test_another_line_is_none() -> None:
    assert read_stats(b"GPU KV cache usage is a gauge") is None


def test_peaks_and_last_values_are_kept() -> None:
    full = read_stats(V1.replace(b"45.5%", b"99.0%"))
    idle = read_stats(V1.replace(b"Running: 12", b"Running: 0"))
    assert full is not None
    assert idle is not None
    total = StatsSum()
    assert total.is_fullest(full)
    total.add(full)
    assert not total.is_fullest(idle)
    total.add(idle)
    summary = total.summary()
    assert (summary.peak_kv_usage, summary.last_kv_usage, summary.lines) == (0.99, 0.455, 2)
    assert (summary.peak_running, summary.last_running) == (12, 0)


def test_no_lines_are_no_zeros() -> None:
    assert StatsSum().summary() == StatsSummary()

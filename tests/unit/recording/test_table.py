from __future__ import annotations

from proxy.recording.readings import GpuReading, Reading
from proxy.recording.table import COLUMNS, HEADER, rows
from proxy.vllm.gateway_page import GatewayMetrics
from proxy.vllm.memory_curve.reader import read_memory_curve
from proxy.vllm.metrics_page import EngineMetrics

MIB = 1 << 20
WHOLE = Reading(
    1767225600.5,
    (GpuReading(0, "Card, big", 20000 * MIB, 24576 * MIB, 0.87), GpuReading(1)),
    True,
    EngineMetrics(running=8.0, waiting=0.0, kv_cache_usage=0.125, prompt_tokens_total=123456789.0),
    GatewayMetrics(in_flight=9.0, arrivals_total=10.0),
)


def test_each_card_has_a_row_and_each_row_all_columns() -> None:
    lines = list(rows(WHOLE, "http://gpu:8000"))
    assert [line.count(",") + 1 for line in lines] == [len(COLUMNS)] * 2


def test_the_memory_curve_reader_reads_what_was_written() -> None:
    first, second = read_memory_curve([HEADER, *rows(WHOLE, "http://gpu:8000")])
    assert (first.at_s, first.gpu, first.name) == (1767225600.5, 0, "Card  big")
    assert (first.used, first.total, first.utilization) == (20000 * MIB, 24576 * MIB, 0.87)
    assert (second.gpu, second.used, second.name) == (1, None, None)
    assert dict(first.extra) == {
        "engine.up": 1.0,
        "engine.running": 8.0,
        "engine.waiting": 0.0,
        "engine.kv_cache_usage": 0.125,
        "engine.prompt_tokens_total": 123456789.0,
        "sluice.in_flight": 9.0,
        "sluice.arrivals_total": 10.0,
    }


def test_without_a_card_one_row_says_so_as_nvidia_smi_does() -> None:
    (line,) = rows(Reading(1767225600.5), "")
    cells = line.split(", ")
    assert cells[1:6] == ["[N/A]"] * 5
    assert cells[7:] == [""] * 14

from __future__ import annotations

import io

from rich.console import Console

from proxy.recording.chart import Chart
from proxy.recording.readings import GpuReading, Reading
from proxy.vllm.gateway_page import GatewayMetrics
from proxy.vllm.metrics_page import EngineMetrics

GIB = 1 << 30


def drawn(chart: Chart, width: int = 100) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(chart)
    return out.getvalue()


def test_each_figure_is_a_line_of_bars_with_now_and_peak() -> None:
    chart = Chart("recording to r.csv")
    for used, usage in ((6, 0.0), (24, 1.0), (12, 0.5)):
        engine = EngineMetrics(kv_cache_usage=usage, running=8.0)
        cards = (GpuReading(0, used=used * GIB, total=24 * GIB),)
        chart.add(Reading(0.0, cards, True, engine, GatewayMetrics(in_flight=3.0)))
    page = drawn(chart)
    assert "recording to r.csv" in page
    memory = next(line for line in page.splitlines() if "GPU 0 memory" in line)
    assert "▃█▅" in memory
    assert "12.0 of 24.0 GiB" in memory
    assert "24.0 of 24.0 GiB" in memory
    usage_line = next(line for line in page.splitlines() if "KV cache" in line)
    assert ("▁█▅" in usage_line, "50%" in usage_line, "100%" in usage_line) == (True, True, True)
    assert "sluice in flight" in page


def test_what_is_unknown_leaves_a_gap_and_is_no_0() -> None:
    chart = Chart("x")
    for running in (4.0, None, 4.0):
        chart.add(Reading(0.0, (), True, EngineMetrics(running=running)))
    chart.add(Reading(0.0, (), False))
    line = next(line for line in drawn(chart).splitlines() if "running" in line)
    assert "█ █ " in line
    assert line.split()[-2:] == ["-", "4"]
    assert list(chart.peaks()) == ["engine running 4"]


def test_a_long_recording_shows_its_end_and_fits_the_terminal() -> None:
    chart = Chart("x")
    for number in range(1000):
        chart.add(Reading(0.0, (), True, EngineMetrics(waiting=float(number >= 990))))
    lines = drawn(chart, width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert "█" * 10 in next(line for line in lines if "waiting" in line)

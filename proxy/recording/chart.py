"""The last minutes of a recording in a terminal: one line of bars for each figure."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, ConsoleOptions, RenderResult

    from proxy.recording.readings import Reading

_BARS = "▁▂▃▄▅▆▇█"
_UNTOLD = " "
_MOST_SAMPLES = 400
_BESIDE = 56  # columns for names and figures
_GIB = 1 << 30


class Chart:
    """A rich renderable that is told each reading. `title` stands above."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.samples = 0
        self._lines: dict[str, _Line] = {}

    def add(self, reading: Reading) -> None:
        self.samples += 1
        for name, value, top, unit in _figures(reading):
            line = self._lines.setdefault(name, _Line(unit))
            line.add(self.samples, value, top)

    def peaks(self) -> Iterator[str]:
        """Each figure's highest value, in words."""
        for name, line in self._lines.items():
            if line.peak is not None:
                yield f"{name} {line.said(line.peak)}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.title, "italic")
        table = Table(box=None, pad_edge=False)
        for title in ("", "", "now", "peak"):
            table.add_column(title, justify="right" if title else "left", no_wrap=True)
        width = max(10, options.max_width - _BESIDE)
        for name, line in self._lines.items():
            bars = Text(line.bars(width), "cyan")
            table.add_row(name, bars, line.said(line.now), line.said(line.peak))
        yield table


class _Line:
    """One figure over time. Drawn from 0 to `top`, or to the peak where it has no top."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.now: float | None = None
        self.peak: float | None = None
        self._top: float | None = None
        self._values: deque[float | None] = deque(maxlen=_MOST_SAMPLES)

    def add(self, _sample: int, value: float | None, top: float | None) -> None:
        self._values.append(value)
        self._top = top or self._top
        self.now = value
        if value is not None:
            self.peak = value if self.peak is None else max(self.peak, value)

    def bars(self, width: int) -> str:
        top = self._top or self.peak or 1.0
        shown: Sequence[float | None] = list(self._values)[-width:]
        return "".join(_UNTOLD if value is None else _bar(value / top) for value in shown)

    def said(self, value: float | None) -> str:
        if value is None:
            return "-"
        of = f" of {self._top:.1f}" if self._top and self.unit == "GiB" else ""
        if self.unit == "GiB":
            return f"{value:.1f}{of} GiB"
        return f"{value:.0%}" if self.unit == "%" else f"{value:g}"


def _bar(share: float) -> str:
    return _BARS[min(len(_BARS) - 1, max(0, int(share * len(_BARS))))]


def _figures(reading: Reading) -> Iterator[tuple[str, float | None, float | None, str]]:
    """Name, value, top of the scale, unit."""
    for gpu in reading.gpus:
        used = None if gpu.used is None else gpu.used / _GIB
        yield f"GPU {gpu.index} memory", used, (gpu.total or 0) / _GIB or None, "GiB"
    engine, gateway = reading.engine, reading.gateway
    if reading.engine_up is not None:
        yield "engine KV cache", engine.kv_cache_usage, 1.0, "%"
        yield "engine running", engine.running, None, ""
        yield "engine waiting", engine.waiting, None, ""
    if gateway.in_flight is not None:
        yield "sluice in flight", gateway.in_flight, gateway.concurrency_limit, ""
        yield "sluice queue", gateway.queue_depth, None, ""

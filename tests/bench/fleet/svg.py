"""Line charts as SVG, readable on light and on dark ground, without any library."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH, _HEIGHT = 720, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 168, 40, 48
_TICKS = 5
# Told apart by those who see no red and green too, and by dashes where there is no colour at all.
_DASHES = ("", "6 3", "2 3", "9 3 2 3", "12 4")
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-size: 14px; font-weight: 600 }
.ground { fill: #fbfcfd }
.grid { stroke: #d0d7de; stroke-width: 1 }
.line { fill: none; stroke-width: 2 }
.c0 { stroke: #0550ae } .c1 { stroke: #bc4c00 } .c2 { stroke: #1a7f37 }
.c3 { stroke: #8250df } .c4 { stroke: #57606a }
@media (prefers-color-scheme: dark) {
  text { fill: #c9d1d9 }
  .ground { fill: #0d1117 }
  .grid { stroke: #30363d }
  .c0 { stroke: #79c0ff } .c1 { stroke: #ffa657 } .c2 { stroke: #7ee787 }
  .c3 { stroke: #d2a8ff } .c4 { stroke: #8b949e }
}
"""


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """`x_marks`: where the axis is marked; with `x_log` its scale is logarithmic. Values above
    `y_top` are drawn there. `percent`: 1 is written 100 %."""

    title: str
    x_title: str
    x_marks: Sequence[float]
    y_top: float
    series: Sequence[Series]
    x_log: bool = False
    percent: bool = False


def drawn(chart: Chart) -> str:
    """The text of a file."""
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
            f'aria-label="{escape(chart.title)}">'
        ),
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{_WIDTH}" height="{_HEIGHT}" rx="8"/>',
        f'<text class="title" x="{_LEFT}" y="20">{escape(chart.title)}</text>',
        *_axes(chart),
    ]
    for number, series in enumerate(chart.series):
        parts += _line(chart, number, series)
    return "\n".join([*parts, "</svg>", ""])


def _axes(chart: Chart) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = []
    for tick in range(_TICKS + 1):
        value = chart.y_top * tick / _TICKS
        y = _y(chart, value)
        parts += [
            f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>',
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_said(chart, value)}</text>',
        ]
    for mark in chart.x_marks:
        x = _x(chart, mark)
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{mark:,g}</text>')
    middle = (_LEFT + right) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(chart.x_title)}</text>'
    )
    return parts


def _line(chart: Chart, number: int, series: Series) -> list[str]:
    points = " ".join(f"{_x(chart, x):.1f},{_y(chart, y):.1f}" for x, y in series.points)
    look = f'class="line c{number % 5}" stroke-dasharray="{_DASHES[number % len(_DASHES)]}"'
    legend_y, legend_x = _TOP + 10 + 20 * number, _WIDTH - _RIGHT + 14
    return [
        f'<polyline {look} points="{points}"/>',
        f'<line {look} x1="{legend_x}" y1="{legend_y}" x2="{legend_x + 28}" y2="{legend_y}"/>',
        f'<text x="{legend_x + 34}" y="{legend_y + 4}">{escape(series.name)}</text>',
    ]


def _x(chart: Chart, value: float) -> float:
    scale = math.log if chart.x_log else float
    first, last = scale(chart.x_marks[0]), scale(chart.x_marks[-1])
    return _LEFT + (_WIDTH - _RIGHT - _LEFT) * (scale(value) - first) / (last - first)


def _y(chart: Chart, value: float) -> float:
    part = min(1.0, max(0.0, value / chart.y_top))
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * part


def _said(chart: Chart, value: float) -> str:
    return f"{value:.0%}" if chart.percent else f"{value:g}"

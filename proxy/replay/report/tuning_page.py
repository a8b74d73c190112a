"""The report of a tuning: goodput, latency and sheds over the limit."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from proxy.replay.report.page import html_table, render_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.replay.limit_curve import LimitPoint

_GREEN, _BLUE, _TEAL, _PURPLE, _ORANGE = "#22a35a", "#3b82f6", "#14a3a8", "#8b5cf6", "#e8890c"
_COLUMNS = (
    "limit",
    "trials",
    "goodput, requests/s",
    "lowest to highest",
    "output tokens/s",
    "first token p95, s",
    "per token p95, s",
    "whole request p95, s",
    "shed for good",
)


def render_tuning(
    title: str, findings: Sequence[str], points: Sequence[LimitPoint], recommended: int | None
) -> str:
    """Raises NoPlotlyError."""
    head = "".join(f"<p>{html.escape(finding)}</p>" for finding in findings)
    table = html_table("Limits tried", _COLUMNS, map(_row, points), "wide")
    return render_page(title, head, table, "", _figure(points, recommended))


def _row(point: LimitPoint) -> Sequence[str]:
    return (
        str(point.limit),
        str(point.trials),
        f"{point.goodput_per_s:.3f}",
        f"{point.lowest_per_s:.3f} to {point.highest_per_s:.3f}",
        f"{point.throughput_tokens_per_s:,.0f}",
        *map(_seconds, (point.ttft_p95_s, point.tpot_p95_s, point.e2e_p95_s)),
        f"{point.shed_share:.1%}",
    )


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _figure(points: Sequence[LimitPoint], recommended: int | None) -> dict[str, Any]:
    limits = [point.limit for point in points]
    times = {
        "first token p95": ([point.ttft_p95_s for point in points], _TEAL),
        "whole request p95": ([point.e2e_p95_s for point in points], _PURPLE),
    }
    data = [
        {
            **_line("goodput", limits, [point.goodput_per_s for point in points], _GREEN, "y"),
            "error_y": {
                "type": "data",
                "symmetric": False,
                "array": [point.highest_per_s - point.goodput_per_s for point in points],
                "arrayminus": [point.goodput_per_s - point.lowest_per_s for point in points],
            },
        },
        *(_line(name, limits, values, colour, "y2") for name, (values, colour) in times.items()),
        _line("output tokens/s", limits, [p.throughput_tokens_per_s for p in points], _BLUE, "y3"),
        _line("shed for good", limits, [point.shed_share for point in points], _ORANGE, "y4"),
    ]
    return {"data": data, "layout": _layout(recommended)}


def _line(
    name: str, x: Sequence[int], y: Sequence[float | None], colour: str, axis: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(x),
        "y": list(y),
        "xaxis": "x",
        "yaxis": axis,
        "line": {"color": colour, "width": 1.6},
    }


def _layout(recommended: int | None) -> dict[str, Any]:
    marks = []
    if recommended is not None:
        marks.append(
            {
                "type": "line",
                "xref": "x",
                "yref": "paper",
                "x0": recommended,
                "x1": recommended,
                "y0": 0,
                "y1": 1,
                "line": {"color": _GREEN, "width": 1, "dash": "dot"},
            }
        )
    axis = {"rangemode": "tozero", "nticks": 5}
    return {
        "height": 760,
        "margin": {"l": 72, "r": 16, "t": 36, "b": 44},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "x unified",
        "hoversubplots": "axis",
        "shapes": marks,
        "legend": {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom"},
        "xaxis": {"title": {"text": "SLUICE_MAX_IN_FLIGHT"}, "type": "log", "anchor": "y4"},
        "yaxis": {**axis, "domain": [0.64, 1.0], "title": {"text": "requests/s"}},
        "yaxis2": {**axis, "domain": [0.40, 0.60], "title": {"text": "seconds"}},
        "yaxis3": {**axis, "domain": [0.20, 0.36], "title": {"text": "tokens/s"}},
        "yaxis4": {**axis, "domain": [0.0, 0.16], "title": {"text": "shed"}, "tickformat": ".0%"},
    }

"""The charts of a report, one above the other on one time axis, as Plotly's JSON.

Plain data rather than plotly's own classes: the report needs a handful of lines and bars, and every
text that comes from outside has to be escaped in one place.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.replay.recording_view import Curve, RecordingView
    from proxy.replay.result import ReplayResult

# Beyond so many points a browser grows slow and a pixel holds several.
_MOST_POINTS = 1800
_CHART_PX = 170
_GAP_PX = 34
_BLUE, _GREEN, _TEAL = "#3b82f6", "#22a35a", "#14a3a8"
_ORANGE, _RED, _PURPLE, _GREY = "#e8890c", "#dc3d43", "#8b5cf6", "#8592a3"
_REASON_COLOURS = (_ORANGE, _RED, "#c026a3", "#b58900", "#a0522d", _PURPLE, _TEAL, _GREY, "#555e6b")

Trace = dict[str, Any]
Numbers: TypeAlias = "Sequence[float | None]"


@dataclass(frozen=True, slots=True)
class Chart:
    """`unit` stands at its axis; an axis of shares goes from 0 to 1."""

    title: str
    unit: str
    traces: Sequence[Trace]
    share: bool = False


def figure_of(result: ReplayResult, recording: RecordingView | None) -> dict[str, Any]:
    """`data` and `layout`, as Plotly.newPlot takes them."""
    charts = [chart for chart in _charts(result, recording) if chart.traces]
    height = len(charts) * (_CHART_PX + _GAP_PX) + 60
    layout: dict[str, Any] = {
        "height": height,
        "margin": {"l": 64, "r": 16, "t": 28, "b": 44},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "x unified",
        "hoversubplots": "axis",
        "barmode": "stack",
        "bargap": 0,
        "xaxis": {
            "title": {"text": "seconds since the start of the replay"},
            "anchor": "y" if len(charts) == 1 else f"y{len(charts)}",
            "range": [0, len(result.series.offered)],
            "zeroline": False,
        },
        "annotations": [],
    }
    data: list[Trace] = []
    for at, chart in enumerate(charts):
        axis = "y" if at == 0 else f"y{at + 1}"
        layout[axis.replace("y", "yaxis")] = _axis(chart, at, len(charts))
        layout["annotations"].append(_title(chart, at, len(charts)))
        legend = "legend" if at == 0 else f"legend{at + 1}"
        layout[legend] = _legend(at, len(charts))
        data += [{**trace, "yaxis": axis, "xaxis": "x", "legend": legend} for trace in chart.traces]
    return {"data": data, "layout": layout}


def _charts(result: ReplayResult, recording: RecordingView | None) -> Iterable[Chart]:
    s = result.series
    seconds = list(range(len(s.offered)))
    yield Chart(
        "Requests: offered against served and good",
        "per second",
        [
            _steps("offered", seconds, s.offered, _GREY),
            _steps("served", seconds, s.served, _BLUE),
            _steps("good", seconds, s.good, _GREEN),
        ],
    )
    yield Chart("Tries shed, by reason, and retries", "per second", _sheds(result, seconds))
    yield Chart(
        "Tries under way, and of these without a first byte",
        "tries",
        [
            _steps("under way", seconds, s.concurrency, _BLUE),
            _steps("waiting", seconds, s.waiting, _ORANGE),
        ],
    )
    yield Chart(
        "Times of those who arrived in that second",
        "seconds",
        [
            _dots("first token p50", seconds, s.ttft_p50_s, _TEAL),
            _dots("first token p95", seconds, s.ttft_p95_s, _TEAL, dash="dot"),
            _dots("whole request p50", seconds, s.e2e_p50_s, _PURPLE),
            _dots("whole request p95", seconds, s.e2e_p95_s, _PURPLE, dash="dot"),
        ],
    )
    yield Chart("Output tokens", "per second", [_steps("tokens", seconds, s.output_tokens, _GREEN)])
    if recording is not None:
        yield from _recorded(recording)


def _sheds(result: ReplayResult, seconds: Sequence[float]) -> list[Trace]:
    traces = [
        _bars(reason, seconds, counts, colour)
        for (reason, counts), colour in zip(
            result.series.sheds.items(), _REASON_COLOURS, strict=False
        )
    ]
    return [*traces, _steps("retries", seconds, result.series.retries, _BLUE)]


def _recorded(recording: RecordingView) -> Iterable[Chart]:
    kv = recording.kv_cache_usage
    yield Chart(
        "KV cache in use", "share", [_curve("KV cache", kv, _RED)] if kv.values else [], share=True
    )
    colours = (_PURPLE, _BLUE, _TEAL, _GREEN, _ORANGE, _RED, _GREY, "#b58900")
    yield Chart(
        "GPU memory in use",
        "GiB",
        [
            _curve(f"GPU {gpu}", curve, colours[at % len(colours)])
            for at, (gpu, curve) in enumerate(sorted(recording.used_gib.items()))
        ],
    )


def _steps(name: str, x: Sequence[float], y: Numbers, colour: str) -> Trace:
    return _line(name, x, y, {"color": colour, "width": 1.6, "shape": "hv"})


def _dots(name: str, x: Sequence[float], y: Numbers, colour: str, dash: str = "solid") -> Trace:
    """Gaps where nobody was answered stay gaps."""
    trace = _line(name, x, y, {"color": colour, "width": 1.6, "dash": dash})
    return {**trace, "mode": "lines+markers", "marker": {"size": 3}, "connectgaps": False}


def _curve(name: str, curve: Curve, colour: str) -> Trace:
    return _line(name, curve.times_s, curve.values, {"color": colour, "width": 1.6})


def _line(name: str, x: Sequence[float], y: Numbers, line: dict[str, Any]) -> Trace:
    xs, ys = _thinned(x, y)
    return {"type": "scatter", "mode": "lines", "name": _text(name), "x": xs, "y": ys, "line": line}


def _bars(name: str, x: Sequence[float], y: Numbers, colour: str) -> Trace:
    xs, ys = _thinned(x, y)
    width = xs[1] - xs[0] if len(xs) > 1 else 1
    return {
        "type": "bar",
        "name": _text(name),
        "x": xs,
        "y": ys,
        "width": width,
        "offset": 0,
        "marker": {"color": colour, "line": {"width": 0}},
    }


def _text(name: str) -> str:
    """Plotly takes some HTML in its texts; reasons come from a server that may be anybody's."""
    return html.escape(name[:60])


def _thinned(x: Sequence[float], y: Numbers) -> tuple[list[float], list[float | None]]:
    """Means of as many neighbours as it takes; gaps are left out of them."""
    each = -(-len(x) // _MOST_POINTS)
    if each <= 1:
        return list(x), [None if v is None else round(v, 4) for v in y]
    starts = range(0, len(x), each)
    return [x[at] for at in starts], [_mean(y[at : at + each]) for at in starts]


def _mean(values: Numbers) -> float | None:
    known = [value for value in values if value is not None]
    return round(fmean(known), 4) if known else None


def _domain(at: int, count: int) -> tuple[float, float]:
    """From the top down, with room for a title above each."""
    each = 1 / count
    gap = each * _GAP_PX / (_CHART_PX + _GAP_PX)
    return 1 - (at + 1) * each, 1 - at * each - gap


def _axis(chart: Chart, at: int, count: int) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "domain": _domain(at, count),
        "title": {"text": chart.unit},
        "rangemode": "tozero",
        "nticks": 5,
    }
    return {**axis, "range": [0, 1.02], "tickformat": ".0%"} if chart.share else axis


def _title(chart: Chart, at: int, count: int) -> dict[str, Any]:
    return {
        "text": f"<b>{chart.title}</b>",
        "showarrow": False,
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "xanchor": "left",
        "y": _domain(at, count)[1],
        "yanchor": "bottom",
        "font": {"size": 13},
    }


def _legend(at: int, count: int) -> dict[str, Any]:
    return {
        "orientation": "h",
        "x": 1,
        "xanchor": "right",
        "y": _domain(at, count)[1],
        "yanchor": "bottom",
        "bgcolor": "rgba(0,0,0,0)",
        "font": {"size": 12},
    }

"""A report as one HTML file that needs no network: charts, tables, and how to repeat the load.

Everything that is not ours is escaped, and the page's own policy lets no script run but the two it
brings along, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import importlib
import re
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

from proxy.replay.client.lag import LATE_S
from proxy.replay.report.charts import figure_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from proxy.replay.percentiles import Percentiles
    from proxy.replay.recording_view import RecordingView
    from proxy.replay.result import ReplayResult

_OBJECTIVES = {
    "ttft_s": "its first token",
    "tpot_s": "each further token",
    "e2e_s": "the whole of it",
}
_PLACE = re.compile(r"\{\{([a-z ]+)\}\}")


class NoPlotlyError(Exception):
    """plotly is not installed; says how to get it."""


def render_report(result: ReplayResult, recording: RecordingView | None = None) -> str:
    """Raises NoPlotlyError."""
    return render_page(
        f"Replay of {_title(result)}",
        _head(result),
        _tables(result),
        _repeat(result),
        figure_of(result, recording),
    )


def render_page(
    title: str, head: str, tables: str, repeat: str, figure: Mapping[str, object]
) -> str:
    """`head`, `tables` and `repeat` are HTML, with what is not ours escaped; `title` is text.

    Raises NoPlotlyError.
    """
    plotly, boot = _plotly_js(), _own("boot.js")
    parts = {
        "title": html.escape(title),
        "script hashes": f"{_hash(plotly)} {_hash(boot)}",
        "head": head,
        "tables": tables,
        "repeat": repeat,
        "figure": _json(figure),
        "plotly": plotly,
        "boot": boot,
    }
    return _PLACE.sub(lambda place: parts[place.group(1)], _own("page.html"))


def _plotly_js() -> str:
    try:
        offline = importlib.import_module("plotly.offline")
    except ImportError as error:
        raise NoPlotlyError(
            "the HTML report needs plotly: pip install 'vllm-sluice[tools]'"
        ) from error
    return str(offline.get_plotlyjs())


def _own(name: str) -> str:
    return resources.files("proxy.replay.report").joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """As a Content-Security-Policy names a script. A browser reads CR LF as LF before it hashes."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _json(figure: Mapping[str, object]) -> str:
    """No `<` ends the element that holds it."""
    return msgspec.json.encode(figure).decode().replace("<", "\\u003c")


def _title(result: ReplayResult) -> str:
    return f"{result.load.get('source', 'a load')} against {result.run.url}"


def _head(result: ReplayResult) -> str:
    run = result.run
    started = datetime.fromtimestamp(run.started_unix_s, UTC)
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    said = f"Started {started:%Y-%m-%d %H:%M:%S} UTC, took {run.elapsed_s:.0f} s. {versions}"
    warnings = "".join(f'<p class="warn">{html.escape(text)}</p>' for text in _warnings(result))
    return f'<p class="soft">{html.escape(said)}</p>{warnings}{_facts(result)}'


def _warnings(result: ReplayResult) -> Iterable[str]:
    if result.run.partial:
        yield (
            f"Broken off after {result.run.elapsed_s:.0f} s: the figures are of what had happened "
            "by then."
        )
    lag_s = result.generator_lag_s.p99
    if lag_s is not None and lag_s > LATE_S and not result.run.is_late:  # then a note says it
        yield (
            f"The load generator itself was late: one request in a hundred began {lag_s:.2f} s or "
            "more after its time. Times count from when it should have begun. Use a faster "
            "machine, or a lower rate."
        )
    yield from result.run.notes


def _facts(result: ReplayResult) -> str:
    facts = {
        "offered": f"{result.offered:,}",
        "completed": f"{result.completed:,}",
        "good": f"{result.good:,}",
        "shed for good": f"{result.shed:,}",
        "failed": f"{result.failed:,}",
        "abandoned": f"{result.abandoned:,}",
        "tries per request": f"{result.amplification:.2f}",
        "goodput, requests/s": f"{result.goodput_per_s:.2f}",
        "output tokens/s": f"{result.throughput_tokens_per_s:,.0f}",
    }
    cells = "".join(
        f"<div><dt>{html.escape(name)}</dt><dd>{value}</dd></div>" for name, value in facts.items()
    )
    return f'<dl class="facts">{cells}</dl><p class="soft">{html.escape(_good(result))}</p>'


def _good(result: ReplayResult) -> str:
    wanted = msgspec.to_builtins(result.objective).items()
    parts = [f"{_OBJECTIVES[name]} within {value:g} s" for name, value in wanted if value]
    return f"An answer is good when it is complete{''.join(', ' + part for part in parts)}."


def _tables(result: ReplayResult) -> str:
    times = {
        "time to first token": result.ttft_s,
        "time per output token": result.tpot_s,
        "time between tokens": result.itl_s,
        "whole request": result.e2e_s,
        "generator late by": result.generator_lag_s,
    }
    columns = ("seconds", "p50", "p90", "p95", "p99", "mean")
    load = [(name, _value(value)) for name, value in _flat(result.load, "")]
    return "\n".join(
        (
            html_table(
                "Times, of completed requests", columns, map(_times, times, times.values()), "wide"
            ),
            html_table("Answers, of all tries", ("status", "tries"), _counts(result.statuses)),
            html_table("Refused under load", ("reason", "tries"), _counts(result.refusals)),
            html_table("The load", ("what", "value"), load),
        )
    )


def _times(name: str, p: Percentiles) -> Sequence[str]:
    values = (p.p50, p.p90, p.p95, p.p99, p.mean)
    return name, *("–" if value is None else f"{value:.3f}" for value in values)


def _counts(counts: Mapping[str, int]) -> Iterable[Sequence[str]]:
    return ((name[:80], f"{count:,}") for name, count in counts.items())


def _flat(values: Mapping[str, object], under: str) -> Iterable[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{under}{name}.")
        else:
            yield f"{under}{name}", value


def _value(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)[:200]


def html_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], style: str = ""
) -> str:
    body = "".join(_row("td", row) for row in rows)
    if not body:
        return ""
    head = _row("th", columns)
    return (
        f'<section class="{style}"><h2>{title}</h2>'
        f"<table><thead>{head}</thead><tbody>{body}</tbody></table></section>"
    )


def _row(cell: str, texts: Sequence[str]) -> str:
    cells = "".join(f"<{cell}>{html.escape(text)}</{cell}>" for text in texts)
    return f"<tr>{cells}</tr>"


def _repeat(result: ReplayResult) -> str:
    if not result.run.command:
        return ""
    return (
        "<section><h2>To repeat it</h2>"
        f"<pre>{html.escape(result.run.command)}</pre>"
        '<p class="soft">The load is the same when its hash is: '
        f"<code>{html.escape(result.load_hash)}</code>. "
        "<code>sluice compare</code> tells what differs.</p></section>"
    )

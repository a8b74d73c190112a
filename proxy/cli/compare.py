"""`sluice compare`: two replay results side by side, with a verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from proxy.cli.plain_types import WHOLE
from proxy.replay.comparison import Judgement, compare_runs, load_differences
from proxy.replay.evidence import GOODPUT, Unit
from proxy.replay.reading import read_comparison
from proxy.replay.recording_view import read_recording
from proxy.replay.result import BadResultError, read_result

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.replay.block_bootstrap import Interval
    from proxy.replay.comparison import Comparison, Estimate, Row
    from proxy.replay.reading import Reading
    from proxy.replay.result import ReplayResult

_WORSE, _UNREADABLE, _DIFFERENT_LOADS = 1, 2, 3
_STYLES = {Judgement.BETTER: "green", Judgement.WORSE: "red"}
_FILE = click.Path(path_type=Path)
# A terminal with room for the intervals of either run.
_WIDE = 120
_BARE = frozenset({Unit.SHARE, Unit.RATIO})


@click.command()
@click.argument("a", type=_FILE)
@click.argument("b", type=_FILE)
@click.option(
    "--recordings",
    nargs=2,
    type=_FILE,
    metavar="A.csv B.csv",
    help="Memory curves of the two runs, from sluice record or nvidia-smi.",
)
@click.option(
    "--seed", type=WHOLE, default=1, show_default=True, help="Of the draws behind the intervals."
)
@click.option(
    "--fail-when-worse", is_flag=True, help="Exit 1 when B's goodput is worse by more than noise."
)
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def compare(
    a: Path,
    b: Path,
    recordings: tuple[Path, Path] | None,
    seed: int,
    fail_when_worse: bool,
    as_json: bool,
) -> None:
    """Compare run B with run A, two result files of sluice replay under the same load.

    Every figure has a 95 % interval, from draws of blocks of time: a difference that may be noise
    is said to be. Runs of different loads are not compared.

    Exit codes: 0 compared, 1 worse (with --fail-when-worse), 2 a file cannot be read, 3 the loads
    differ.

    \b
    Examples:
      sluice compare before.json after.json
      sluice compare before.json after.json --recordings before.csv after.csv
      sluice compare main.json branch.json --fail-when-worse --json
    """
    try:
        runs = read_result(a), read_result(b)
        differences = load_differences(*runs)
        views = [
            read_recording(path, result.run)
            for path, result in zip(recordings or (), runs, strict=False)
        ]
    except BadResultError as error:
        _stop(str(error), _UNREADABLE)
    if differences:
        if as_json:
            click.echo(json.dumps({"verdict": "different_loads", "differences": list(differences)}))
        _stop(_refusal(a, b, differences), _DIFFERENT_LOADS)
    comparison = compare_runs(*runs, seed)
    readings = read_comparison(comparison, *views)
    if as_json:
        click.echo(json.dumps(_as_json(comparison, readings, runs, seed)))
    else:
        _print(comparison, readings, runs)
    if fail_when_worse and comparison.judged(GOODPUT) is Judgement.WORSE:
        raise SystemExit(_WORSE)


def _stop(message: str, code: int) -> None:
    click.echo(f"error: {message}", err=True)
    raise SystemExit(code)


def _refusal(a: Path, b: Path, differences: Iterable[str]) -> str:
    listed = "".join(f"\n  {line}" for line in differences)
    return f"A ({a.name}) and B ({b.name}) are not runs of one load:{listed}"


def _as_json(
    comparison: Comparison,
    readings: Sequence[Reading],
    runs: tuple[ReplayResult, ReplayResult],
    seed: int,
) -> dict[str, Any]:
    return {
        "verdict": str(readings[0].code),
        "readings": [{"code": str(r.code), "text": r.text, "advice": r.advice} for r in readings],
        "load_hash": runs[0].load_hash,
        "blocks": comparison.blocks.count,
        "block_s": comparison.blocks.length_s,
        "seed": seed,
        "metrics": {
            name: {
                "a": _estimate_json(row.a),
                "b": _estimate_json(row.b),
                "change": _estimate_json(row.change),
                "judgement": str(row.judgement),
            }
            for name, row in comparison.rows.items()
        },
    }


def _estimate_json(estimate: Estimate) -> dict[str, float | None]:
    interval = estimate.interval
    return {
        "value": estimate.value,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }


def _print(
    comparison: Comparison,
    readings: Iterable[Reading],
    runs: tuple[ReplayResult, ReplayResult],
) -> None:
    console = Console(highlight=False)
    console.print(_table(comparison, runs, wide=console.width >= _WIDE))
    for reading in readings:
        console.print(Text(reading.text, style="bold"))
        if reading.advice:
            console.print(Text(f"  {reading.advice}"))


def _table(comparison: Comparison, runs: tuple[ReplayResult, ReplayResult], *, wide: bool) -> Table:
    """Where it is narrow, only the changes have their intervals."""
    offered = " and ".join(str(run.offered) for run in runs)
    blocks = comparison.blocks
    caption = f"[low, high]: 95 % intervals, {blocks.count} blocks of {blocks.length_s:.1f} s"
    table = Table(
        title=f"{offered} requests of one load",
        caption=Text(caption),
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("", no_wrap=True)
    for name in ("A", "B", "change"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("B is", no_wrap=True)
    for row in comparison.rows.values():
        if row.a.value or row.b.value:
            table.add_row(*_cells(row, wide=wide), style=_STYLES.get(row.judgement))
    return table


def _cells(row: Row, *, wide: bool) -> list[str]:
    unit = row.metric.unit
    label = row.metric.label if unit in _BARE else f"{row.metric.label}, {unit.value}"
    values = [_written(estimate, unit, wide=wide) for estimate in (row.a, row.b)]
    judged = "noise" if row.judgement is Judgement.NOISE else str(row.judgement)
    return [label, *values, _changed(row), judged]


def _changed(row: Row) -> str:
    if row.change.value is None:
        return "-"
    suffix = " pt" if row.metric.unit is Unit.SHARE else " %"
    bounds = _bounds(row.change.interval, 100, "+.1f")
    return f"{row.change.value * 100:+.1f}{suffix}{bounds}"


def _written(estimate: Estimate, unit: Unit, *, wide: bool) -> str:
    if estimate.value is None:
        return "-"
    factor, suffix = (100, " %") if unit is Unit.SHARE else (1, "")
    form = ".1f" if unit is Unit.SHARE else _form(estimate.value)
    bounds = _bounds(estimate.interval, factor, form) if wide else ""
    return f"{estimate.value * factor:{form}}{suffix}{bounds}"


def _bounds(interval: Interval | None, factor: float, form: str) -> str:
    if interval is None:
        return ""
    return f" [{interval.low * factor:{form}}, {interval.high * factor:{form}}]"


def _form(value: float) -> str:
    """Three digits or so: a fourth is noise."""
    size = abs(value)
    if size >= 100:
        return ".0f"
    if size >= 10:
        return ".1f"
    if size >= 1:
        return ".2f"
    return ".3f" if size >= 0.1 else ".4f"

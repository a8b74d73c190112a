"""`sluice compare`: two replay results side by side, with a verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

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
@click.option("--seed", default=1, show_default=True, help="Of the draws behind the intervals.")
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
    console.print(_table(comparison, runs))
    for reading in readings:
        console.print(Text(reading.text, style="bold"))
        if reading.advice:
            console.print(Text(f"  {reading.advice}"))


def _table(comparison: Comparison, runs: tuple[ReplayResult, ReplayResult]) -> Table:
    offered = " and ".join(str(run.offered) for run in runs)
    blocks = comparison.blocks
    table = Table(
        title=f"{offered} requests of one load",
        caption=f"[low, high]: 95 % intervals, {blocks.count} blocks of {blocks.length_s:.1f} s",
    )
    table.add_column("")
    for name in ("A", "B", "change"):
        table.add_column(name, justify="right")
    table.add_column("B is")
    for row in comparison.rows.values():
        if row.a.value or row.b.value:
            table.add_row(*_cells(row), style=_STYLES.get(row.judgement))
    return table


def _cells(row: Row) -> list[str]:
    unit = row.metric.unit
    label = row.metric.label if unit in _BARE else f"{row.metric.label}, {unit.value}"
    change = row.change
    if change.value is None:
        changed = "-"
    else:
        suffix = " pt" if unit is Unit.SHARE else " %"
        changed = f"{change.value * 100:+.1f}{suffix}{_bounds(change.interval, 100, '+.1f')}"
    return [label, _written(row.a, unit), _written(row.b, unit), changed, str(row.judgement)]


_BARE = frozenset({Unit.SHARE, Unit.RATIO})


def _written(estimate: Estimate, unit: Unit) -> str:
    if estimate.value is None:
        return "-"
    factor, suffix = (100, " %") if unit is Unit.SHARE else (1, "")
    form = _form(estimate.value * factor)
    return f"{estimate.value * factor:{form}}{suffix}{_bounds(estimate.interval, factor, form)}"


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
    return ".2f" if size >= 1 else ".4f"

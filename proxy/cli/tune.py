"""`sluice tune`: the same load at several limits, and the limit with the best goodput."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from proxy.cli.output_files import refuse_unwritable
from proxy.cli.plain_types import WHOLE, WholeRange
from proxy.cli.replay_child import replay_once
from proxy.cli.tune_findings import Tuned, findings_of
from proxy.cli.tune_load import load_duration_s
from proxy.cli.tune_trials import Trials, gateway_with, run_trials
from proxy.replay.limit_curve import limit_curve
from proxy.replay.limit_search import LimitSearch, Range
from proxy.replay.report.page import NoPlotlyError
from proxy.replay.report.tuning_page import render_tuning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.replay.limit_curve import LimitPoint
    from proxy.replay.result import ReplayResult

_UNPROVEN, _NOTHING_GOOD, _INTERRUPTED = 1, 3, 130
_BAR_CELLS = 16
# Of each trial: a gateway and a replay start and end.
_BESIDE_S = 4.0


@click.command()
@click.argument("url")
@click.argument("replay_options", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--between",
    nargs=2,
    type=WholeRange(1, 65536),
    metavar="LOW HIGH",
    help="Limits to try, both ends included.  [default: a sixteenth of SLUICE_MAX_NUM_SEQS to "
    "one below it]",
)
@click.option(
    "--points",
    default=5,
    show_default=True,
    type=WholeRange(2, 20),
    help="Limits to begin with.",
)
@click.option(
    "--repeats",
    default=3,
    show_default=True,
    type=WholeRange(1, 20),
    help="Trials of each limit that is in question.",
)
@click.option(
    "--max-trials",
    default=24,
    show_default=True,
    type=WholeRange(1, 500),
    help="At most so many replays.",
)
@click.option(
    "--order-seed", type=WHOLE, default=1, show_default=True, help="Of the order of the trials."
)
@click.option(
    "--html", type=click.Path(path_type=Path), help="Write the curve as a page to a file."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def tune(
    url: str,
    replay_options: tuple[str, ...],
    between: tuple[int, int] | None,
    points: int,
    repeats: int,
    max_trials: int,
    order_seed: int,
    html: Path | None,
    as_json: bool,
) -> None:
    """Find the limit (SLUICE_MAX_IN_FLIGHT) with the best goodput for the engine at URL.

    For each trial a gateway is started beside this command, with your own SLUICE_ settings but for
    the limit, and `sluice replay` plays a load against it: whatever stands after `--` is given to
    it. Trials are interleaved and repeated; of limits that are as good within noise the smallest is
    recommended. The engine should have nothing else to do.

    Exit codes: 0 found, 1 trials could not be played, or the load generator was too slow for them
    to count, 2 bad options, 3 nothing was good at any limit, 130 broken off (the curve so far is
    printed, and nothing recommended).

    \b
    Examples:
      sluice tune http://gpu-host:8000 --between 8 128 -- --rate 20 --duration 60s --slo-ttft 2
      sluice tune http://gpu-host:8000 --between 8 128 --html curve.html -- trace.csv --slo-e2e 30
    """
    span = _span(between)
    _refuse_too_few_trials(span, points, max_trials)
    refuse_unwritable(html)
    budget = _Budget(span, max_trials, load_duration_s(url, replay_options))
    search = LimitSearch(
        span, random.Random(order_seed), points=points, repeats=repeats, trials=max_trials
    )
    trials = Trials()
    ended_by = _play(search, url, replay_options, trials, budget)
    tuned = _tuned(span, search, trials, ended_by)
    findings = findings_of(tuned)
    if as_json:
        click.echo(json.dumps(_as_json(tuned, findings)))
    else:
        _print(tuned, findings)
    if html is not None:
        _write_page(html, url, findings, tuned)
    _exit(tuned)


def _span(between: tuple[int, int] | None) -> Range:
    if between is not None:
        low, high = between
        if low > high:
            raise click.BadParameter(f"{low} is above {high}", param_hint="--between")
        return Range(low, high)
    told = os.environ.get("SLUICE_MAX_NUM_SEQS", "")
    if not (told.isascii() and told.isdecimal()) or int(told) < 2:
        raise click.UsageError(
            "say which limits to try with --between LOW HIGH, or set SLUICE_MAX_NUM_SEQS to what "
            "the engine was started with"
        )
    return Range(max(1, int(told) // 16), int(told) - 1)


def _refuse_too_few_trials(span: Range, points: int, most: int) -> None:
    least = len(span.survey(points))
    if most < least:
        raise click.BadParameter(
            f"{most} trials do not reach for the {least} limits to begin with (--points)",
            param_hint="--max-trials",
        )


@dataclass(frozen=True, slots=True)
class _Budget:
    """At most so many replays, of `load_s` seconds each."""

    span: Range
    most: int
    load_s: float

    def __str__(self) -> str:
        return (
            f"Limits {self.span.low} to {self.span.high}, at most {self.most} replays one after "
            f"the other: {_duration(self.most * (self.load_s + _BESIDE_S))}, and what answers take "
            "at the end. Ctrl-C ends it with what there is by then."
        )


def _play(
    search: LimitSearch, url: str, options: Sequence[str], trials: Trials, budget: _Budget
) -> KeyboardInterrupt | click.ClickException | None:
    """Fills `trials`; what ended them before the search was over. Raises ClickException when the
    first one cannot be played."""
    console = Console(stderr=True, highlight=False)
    console.print(str(budget))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        bar = progress.add_task("trials", total=budget.most)
        began, done = time.monotonic(), 0

        def told(limit: int, result: ReplayResult) -> None:
            nonlocal done
            done += 1
            progress.advance(bar)
            left_s = (time.monotonic() - began) / done * (budget.most - done)
            left = f"; at most {_duration(left_s)} more" if left_s else ""
            progress.console.print(f"limit {limit}: {_shown(result)}{left}")

        try:
            with _terminated_as_interrupted():
                run_trials(
                    search,
                    lambda limit: gateway_with(url, limit),
                    lambda gateway_url: replay_once(gateway_url, options),
                    trials,
                    told,
                )
        except click.ClickException as error:
            if not done:
                raise
            return error
        except KeyboardInterrupt as interrupt:
            return interrupt
    return None


def _shown(result: ReplayResult) -> str:
    if result.run.is_late:
        return f"does not count, the load generator was late by {result.run.late_s:.2f} s"
    return f"{result.goodput_per_s:.3f} good requests/s"


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM, too, is to leave no process behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _tuned(
    span: Range,
    search: LimitSearch,
    trials: Trials,
    ended_by: KeyboardInterrupt | click.ClickException | None,
) -> Tuned:
    proven = search.is_surveyed and ended_by is None
    return Tuned(
        span=span,
        trials=trials,
        curve=limit_curve(trials.counted),
        found=search.recommendation() if proven else None,
        is_surveyed=search.is_surveyed,
        is_settled=search.is_settled,
        interrupted=isinstance(ended_by, KeyboardInterrupt),
        failure=ended_by.message if isinstance(ended_by, click.ClickException) else None,
    )


def _exit(tuned: Tuned) -> None:
    if tuned.interrupted:
        raise SystemExit(_INTERRUPTED)
    if tuned.failure is not None or not tuned.is_surveyed:
        raise SystemExit(_UNPROVEN)
    if tuned.found is None:
        raise SystemExit(_NOTHING_GOOD)


def _as_json(tuned: Tuned, findings: Sequence[str]) -> dict[str, Any]:
    found = tuned.found
    return {
        "recommended": found.limit if found else None,
        "best": found.best if found else None,
        "as_good": list(found.as_good) if found else [],
        "noise_per_s": found.noise if found else None,
        "findings": findings,
        "broken_off": tuned.interrupted or tuned.failure is not None,
        "limits": [asdict(point) for point in tuned.curve],
        "late_trials": [{"limit": limit, "late_s": late_s} for limit, late_s in tuned.trials.late],
    }


def _print(tuned: Tuned, findings: Sequence[str]) -> None:
    console = Console(highlight=False)
    if tuned.curve:
        recommended = tuned.found.limit if tuned.found else None
        console.print(_table(tuned.curve, recommended))
    for finding in findings:
        console.print(Text(finding))


def _table(curve: Sequence[LimitPoint], recommended: int | None) -> Table:
    title = "Goodput over the limit"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("limit", "trials", "good/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=_BAR_CELLS)
    for name in ("tokens/s", "TTFT p95", "TPOT p95", "shed"):
        table.add_column(name, justify="right", no_wrap=True)
    highest = max(point.goodput_per_s for point in curve) or 1.0
    for point in curve:
        style = "bold green" if point.limit == recommended else None
        table.add_row(*_cells(point, highest), style=style)
    return table


def _cells(point: LimitPoint, highest: float) -> Sequence[str]:
    return (
        str(point.limit),
        str(point.trials),
        f"{point.goodput_per_s:.3g}",
        "█" * round(_BAR_CELLS * point.goodput_per_s / highest),
        f"{point.throughput_tokens_per_s:,.0f}",
        "-" if point.ttft_p95_s is None else f"{point.ttft_p95_s:.2f} s",
        "-" if point.tpot_p95_s is None else f"{point.tpot_p95_s * 1000:.1f} ms",
        f"{point.shed_share:.0%}",
    )


def _write_page(path: Path, url: str, findings: Sequence[str], tuned: Tuned) -> None:
    recommended = tuned.found.limit if tuned.found else None
    try:
        page = render_tuning(f"Tuning of {url}", findings, tuned.curve, recommended)
        path.write_text(page, encoding="utf-8")
    except (NoPlotlyError, OSError) as error:
        raise click.ClickException(str(error)) from error

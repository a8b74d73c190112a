"""`sluice tune`: the same load at several limits, and the limit with the best goodput."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from proxy.cli.output_files import refuse_unwritable
from proxy.cli.replay_child import replay_once
from proxy.cli.tune_trials import gateway_with, run_trials
from proxy.replay.limit_curve import limit_curve
from proxy.replay.limit_search import LimitSearch, Range
from proxy.replay.report.page import NoPlotlyError
from proxy.replay.report.tuning_page import render_tuning
from proxy.replay.synthetic.specification import BadSpecificationError, duration_s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from proxy.replay.limit_curve import LimitPoint
    from proxy.replay.limit_search import Recommendation
    from proxy.replay.result import ReplayResult

_NOTHING_GOOD, _INTERRUPTED = 3, 130
_BAR_CELLS = 16
_CLIFF = 0.25
# Of each trial: a gateway and a replay start and end.
_BESIDE_S = 4.0


@click.command()
@click.argument("url")
@click.argument("replay_options", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--between",
    nargs=2,
    type=click.IntRange(1, 65536),
    metavar="LOW HIGH",
    help="Limits to try, both ends included.  [default: a sixteenth of SLUICE_MAX_NUM_SEQS to "
    "one below it]",
)
@click.option(
    "--points",
    default=5,
    show_default=True,
    type=click.IntRange(2, 20),
    help="Limits to begin with.",
)
@click.option(
    "--repeats",
    default=3,
    show_default=True,
    type=click.IntRange(1, 20),
    help="Trials of each limit that is in question.",
)
@click.option(
    "--max-trials",
    default=18,
    show_default=True,
    type=click.IntRange(1, 500),
    help="At most so many replays.",
)
@click.option("--order-seed", default=1, show_default=True, help="Of the order of the trials.")
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

    Exit codes: 0 found, 1 a trial could not be played, 2 bad options, 3 nothing was good at any
    limit, 130 broken off (the curve so far is printed).

    \b
    Examples:
      sluice tune http://gpu-host:8000 --between 8 128 -- --rate 20 --duration 60s --slo-ttft 2
      sluice tune http://gpu-host:8000 --between 8 128 --html curve.html -- trace.csv --slo-e2e 30
    """
    span = _span(between)
    refuse_unwritable(html)
    search = LimitSearch(
        span, random.Random(order_seed), points=points, repeats=repeats, trials=max_trials
    )
    trials: dict[int, list[ReplayResult]] = {}
    interrupted = _run(search, url, replay_options, trials, span, max_trials)
    curve = limit_curve(trials)
    found = search.recommendation()
    findings = list(_findings(found, span, curve, trials, interrupted=interrupted))
    if as_json:
        click.echo(json.dumps(_as_json(found, findings, curve)))
    else:
        _print(curve, found, findings)
    if html is not None:
        _write_page(html, url, findings, curve, found)
    if interrupted:
        raise SystemExit(_INTERRUPTED)
    if found is None:
        raise SystemExit(_NOTHING_GOOD)


def _span(between: tuple[int, int] | None) -> Range:
    if between is not None:
        low, high = between
        if low > high:
            raise click.BadParameter(f"{low} is above {high}", param_hint="--between")
        return Range(low, high)
    told = os.environ.get("SLUICE_MAX_NUM_SEQS", "")
    if not told.isdecimal() or int(told) < 2:
        raise click.UsageError(
            "say which limits to try with --between LOW HIGH, or set SLUICE_MAX_NUM_SEQS to what "
            "the engine was started with"
        )
    return Range(max(1, int(told) // 16), int(told) - 1)


def _run(
    search: LimitSearch,
    url: str,
    options: Sequence[str],
    trials: dict[int, list[ReplayResult]],
    span: Range,
    most: int,
) -> bool:
    """Whether it was broken off."""
    console = Console(stderr=True)
    console.print(
        f"Limits {span.low} to {span.high}, at most {most} replays one after the other"
        f"{_budget(options, most)}. Ctrl-C ends it with what there is by then.",
        highlight=False,
    )
    began, done = time.monotonic(), 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        bar = progress.add_task("trials", total=most)

        def told(limit: int, result: ReplayResult) -> None:
            nonlocal done
            done += 1
            progress.advance(bar)
            left = _duration((time.monotonic() - began) / done * (most - done))
            progress.console.print(
                f"limit {limit}: {result.goodput_per_s:.3f} good requests/s; at most {left} more",
                highlight=False,
            )

        try:
            with _terminated_as_interrupted():
                run_trials(
                    search,
                    lambda limit: gateway_with(url, limit),
                    lambda gateway_url, _trial: replay_once(gateway_url, options),
                    trials,
                    told,
                )
        except KeyboardInterrupt:
            return True
    return False


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM, too, is to leave no process behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _budget(options: Sequence[str], most: int) -> str:
    """Of a trace played to its end, nobody knows before the first replay."""
    for at, option in enumerate(options):
        name, equals, value = option.partition("=")
        if name == "--duration" and (equals or at + 1 < len(options)):
            try:
                each_s = duration_s(value or options[at + 1], name)
            except BadSpecificationError:
                break  # the replay itself says what is wrong with it
            return f": {_duration(most * (each_s + _BESIDE_S))}, and what answers take at the end"
    return "; how long they take is known after the first"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _findings(
    found: Recommendation | None,
    span: Range,
    curve: Sequence[LimitPoint],
    trials: Mapping[int, Sequence[ReplayResult]],
    *,
    interrupted: bool,
) -> Iterator[str]:
    if interrupted:
        done = sum(map(len, trials.values()))
        yield f"Broken off: what follows rests on {done} trials, and may change with more."
    if found is None:
        yield "No answer was good at any limit: the load is too high, or the objective too strict."
        return
    yield f"Recommended: SLUICE_MAX_IN_FLIGHT={found.limit}"
    others = [str(limit) for limit in found.as_good if limit != found.limit]
    if others:
        yield (
            f"As good within noise: {', '.join(others)}. The smallest is recommended, for it "
            "leaves the engine the most room."
        )
    if cliff := _cliff(found.limit, curve):
        yield cliff
    if found.limit == span.high:
        yield f"{span.high} is the largest limit that was allowed: a larger one may be better."
    if found.limit == span.low and span.low > 1:
        yield (
            f"{span.low} is the smallest limit that was allowed, and as good as any: the load may "
            "be too light to tell limits apart."
        )
    objective = trials[found.limit][-1].objective
    if (objective.ttft_s, objective.tpot_s, objective.e2e_s) == (None, None, None):
        yield (
            "There was no objective, so every whole answer counts as good, however late it was: "
            "state one with the options of sluice replay."
        )


def _cliff(limit: int, curve: Sequence[LimitPoint]) -> str | None:
    """Beyond some limits an objective is missed by all at once, not by some."""
    at = next(i for i, point in enumerate(curve) if point.limit == limit)
    if at + 1 == len(curve):
        return None
    here, above = curve[at], curve[at + 1]
    if above.goodput_per_s > here.goodput_per_s * (1 - _CLIFF):
        return None
    text = f"It is close to a cliff: {above.limit} has {above.goodput_per_s:.3g} good requests/s."
    if at > 0:
        below = curve[at - 1]
        given_up = 1 - below.goodput_per_s / here.goodput_per_s
        text += f" {below.limit} keeps a margin and gives up {max(given_up, 0):.0%}."
    return text


def _as_json(
    found: Recommendation | None, findings: Sequence[str], curve: Sequence[LimitPoint]
) -> dict[str, Any]:
    return {
        "recommended": found.limit if found else None,
        "best": found.best if found else None,
        "as_good": list(found.as_good) if found else [],
        "noise_per_s": found.noise if found else None,
        "findings": findings,
        "limits": [asdict(point) for point in curve],
    }


def _print(
    curve: Sequence[LimitPoint], found: Recommendation | None, findings: Sequence[str]
) -> None:
    console = Console(highlight=False)
    if curve:
        console.print(_table(curve, found))
    for finding in findings:
        console.print(Text(finding))


def _table(curve: Sequence[LimitPoint], found: Recommendation | None) -> Table:
    title = "Goodput over the limit"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("limit", "trials", "good/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=_BAR_CELLS)
    for name in ("tokens/s", "TTFT p95", "TPOT p95", "shed"):
        table.add_column(name, justify="right", no_wrap=True)
    highest = max(point.goodput_per_s for point in curve) or 1.0
    for point in curve:
        chosen = found is not None and point.limit == found.limit
        table.add_row(*_cells(point, highest), style="bold green" if chosen else None)
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


def _write_page(
    path: Path,
    url: str,
    findings: Sequence[str],
    curve: Sequence[LimitPoint],
    found: Recommendation | None,
) -> None:
    try:
        page = render_tuning(f"Tuning of {url}", findings, curve, found.limit if found else None)
        path.write_text(page, encoding="utf-8")
    except (NoPlotlyError, OSError) as error:
        raise click.ClickException(str(error)) from error

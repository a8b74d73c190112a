"""`sluice replay`: plays a trace or a made-up load against a URL as real clients would."""

from __future__ import annotations

import asyncio
import gc
import platform
import resource
import shlex
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from proxy import __version__
from proxy.cli.beside import end_with_stdin
from proxy.cli.event_loop import loop_factory
from proxy.cli.output_files import refuse_unwritable
from proxy.cli.replay_options import limits_of, load_options, objective_of
from proxy.cli.replay_plan import plan_of
from proxy.cli.replay_view import progress_shown, result_lines, result_table
from proxy.replay.client.tally import Tally
from proxy.replay.engine import EngineError
from proxy.replay.outcome import Load
from proxy.replay.recording_view import read_recording
from proxy.replay.report.page import NoPlotlyError, render_report
from proxy.replay.result import BadResultError, Run, to_short_json, write_result
from proxy.replay.session import connect, notes_on, play_schedule, prepare
from proxy.replay.summary import summarize_replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.cli.replay_plan import Plan
    from proxy.replay.result import ReplayResult
    from proxy.replay.session import Asking, Played, Prepared

_NOT_REACHED, _UNREADABLE, _LATE, _INTERRUPTED = 1, 2, 3, 130
_FILE = click.Path(path_type=Path)
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SECRET_OPTIONS = ("--api-key", "--header")
# Requests are kept until the end and hold no cycles: looking for some would only make us late.
_GC_THRESHOLDS = (100_000, 100, 1_000_000)


@click.command()
@click.argument("url")
@click.argument("trace", type=_FILE, required=False)
@load_options
@click.option("--output", type=_FILE, help="Write the result to a JSON file.")
@click.option("--html", type=_FILE, help="Write a report that opens in any browser.")
@click.option("--recording", type=_FILE, help="A file of sluice record, to lay under the report.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--exit-with-stdin", is_flag=True, hidden=True)  # for a tuning, which may be killed
def replay(
    url: str,
    trace: Path | None,
    output: Path | None,
    html: Path | None,
    recording: Path | None,
    as_json: bool,
    exit_with_stdin: bool,
    **told: Any,  # noqa: ANN401 - options of many types, read in replay_options.py
) -> None:
    """Play a load against the OpenAI API at URL, as real clients would.

    Requests start when they are due, whether or not earlier ones have been answered. TRACE is a
    SLUICE_TRACE_FILE, an Azure LLM trace, BurstGPT, or Mooncake's or vLLM's JSON lines, plain or
    gzipped; without one, --rate or --arrivals makes a load up.

    Ctrl-C ends it with what there is by then. Exit codes: 0 played, 1 the engine could not be
    asked, 2 bad options or a file that cannot be read, 3 the generator itself was too late for the
    figures to mean anything, 130 broken off.

    \b
    Examples:
      sluice replay http://gateway:8080 --rate 20 --duration 2m --slo-ttft 2s --html report.html
      sluice replay http://gateway:8080 azure.csv --speed 2 --duration 5m --output before.json
      sluice replay http://gateway:8080 trace.jsonl --limit-rate 3 --max-prompt-tokens 4000
      sluice replay http://gateway:8080 --arrivals step:5@60s,50@20s --client vercel-ai
    """
    if exit_with_stdin:
        end_with_stdin()
    plan = plan_of(url, trace, told)
    if recording is not None and html is None:
        raise click.UsageError("--recording is laid under the report of --html FILE")
    refuse_unwritable(output, html)
    _allow_many_connections()
    tally = Tally(objective_of(told))
    console = Console(stderr=True, highlight=False)
    try:
        with asyncio.Runner(debug=False, loop_factory=loop_factory()) as runner:
            prepared, played = runner.run(_play(console, plan, tally, told))
    except EngineError as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(_NOT_REACHED) from error
    except KeyboardInterrupt:  # before there was anything to keep
        raise SystemExit(_INTERRUPTED) from None
    load = _load(plan, prepared, told)
    run = _run(plan.asking, prepared, played, tally)
    result = summarize_replay(played.records, load, run)
    _print(result, as_json=as_json)
    problems = _written(result, output, html, recording)
    for problem in problems:
        click.echo(f"error: {problem}", err=True)
    _exit(played, failed=bool(problems))


async def _play(
    console: Console, plan: Plan, tally: Tally, told: dict[str, Any]
) -> tuple[Prepared, Played]:
    pool = connect(plan.asking, plan.patience.timeout_s)
    try:
        prepared = await prepare(pool, plan.asking, plan.schedule, limits_of(told))
        shown: list[asyncio.Task[None]] = []

        def begun(clock: Callable[[], float], playing: asyncio.Task[None]) -> None:
            _end_on_signals(playing)
            _announce(console, prepared)
            shown.append(asyncio.create_task(_show(console, tally, clock, prepared, playing)))

        with _few_collections():
            played = await play_schedule(
                pool, plan.asking, prepared, plan.patience, tally, told["seed"], begun
            )
        await asyncio.gather(*shown)
    finally:
        await pool.aclose()
    return prepared, played


@contextmanager
def _few_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


async def _show(
    console: Console,
    tally: Tally,
    clock: Callable[[], float],
    prepared: Prepared,
    playing: asyncio.Task[None],
) -> None:
    schedule = prepared.schedule
    planned = len(schedule.arrivals)
    async with progress_shown(console, tally, clock, schedule.duration_s, planned):
        await asyncio.wait([playing])


def _announce(console: Console, prepared: Prepared) -> None:
    schedule, calibration = prepared.schedule, prepared.calibration
    console.print(
        f"{len(schedule.arrivals)} requests in {schedule.duration_s:.0f} s to model "
        f"{prepared.served.model}; prompt lengths {calibration.how}. Ctrl-C ends it with what "
        "there is by then.",
        markup=False,
        soft_wrap=True,
    )


def _end_on_signals(playing: asyncio.Task[None]) -> None:
    """SIGTERM as well: a tuning ends its trials so. A second one ends us as usual."""
    loop = asyncio.get_running_loop()

    def as_before(_playing: object) -> None:
        for number in _ENDING_SIGNALS:
            loop.remove_signal_handler(number)

    for number in _ENDING_SIGNALS:
        loop.add_signal_handler(number, playing.cancel)
    playing.add_done_callback(as_before)


def _allow_many_connections() -> None:
    """Each running request has one, and the usual limit is 1,024 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _load(plan: Plan, prepared: Prepared, told: dict[str, Any]) -> Load:
    schedule = prepared.schedule
    return Load(
        source=plan.source,
        source_hash=prepared.load_hash,
        speed=told["speed"],
        rate_per_s=round(len(schedule.arrivals) / schedule.duration_s, 6),
        duration_s=schedule.duration_s,
        timeout_s=plan.patience.timeout_s,
        max_retries=plan.patience.max_retries,
        slo_ttft_s=told["slo_ttft"],
        slo_tpot_s=told["slo_tpot"],
        slo_e2e_s=told["slo_e2e"],
        client=told["client"],
        abandon_after=told["abandon_after"],
    )


def _run(asking: Asking, prepared: Prepared, played: Played, tally: Tally) -> Run:
    prompts = tally.prompts
    return Run(
        url=str(asking.address),
        started_unix_s=played.started_unix_s,
        elapsed_s=played.elapsed_s,
        partial=played.partial,
        command=command_line(sys.argv[1:]),
        versions={"sluice": __version__, "python": platform.python_version()},
        notes=notes_on(prepared, played, tally),
        generator={
            "loop_lag_p99_s": round(played.loop_lag_p99_s, 4),
            "start_lag_p99_s": round(played.start_lag_p99_s, 4),
            "cpu_share": round(played.cpu_share, 3),
            "peak_running": tally.peak,
            "prompts_compared": prompts.compared,
            "prompt_tokens_asked": prompts.asked,
            "prompt_tokens_counted": prompts.counted,
            "prompt_tokens_furthest_off": prompts.furthest,
        },
    )


def command_line(words: list[str]) -> str:
    """As it was given, without secrets."""
    shown, hide_next = ["sluice"], False
    for word in words:
        name, equals, _ = word.partition("=")
        if hide_next:
            shown.append("***")
        elif name in _SECRET_OPTIONS and equals:
            shown.append(f"{name}=***")
        else:
            shown.append(word)
        hide_next = not hide_next and word in _SECRET_OPTIONS
    return shlex.join(shown)


def _print(result: ReplayResult, *, as_json: bool) -> None:
    if as_json:
        click.echo(to_short_json(result))
        return
    console = Console(highlight=False)
    console.print(result_table(result))
    for line in (*result_lines(result), *(f"note: {note}" for note in result.run.notes)):
        console.print(line, markup=False)


def _written(
    result: ReplayResult, output: Path | None, html: Path | None, recording: Path | None
) -> list[str]:
    """Each file by itself: that one cannot be written shall not cost the others."""
    problems = []
    for path, write in (
        (output, write_result),
        (html, lambda result, path: _write_page(result, path, recording)),
    ):
        if path is None:
            continue
        try:
            write(result, path)
        except (NoPlotlyError, BadResultError) as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"{path}: {error.strerror or error}")
    return problems


def _write_page(result: ReplayResult, path: Path, recording: Path | None) -> None:
    """A recording that cannot be read shall not cost the page: it is written without, then told."""
    view, problem = None, None
    if recording is not None:
        try:
            view = read_recording(recording, result.run)
        except BadResultError as error:
            problem = error
    path.write_text(render_report(result, view), encoding="utf-8")
    if problem is not None:
        raise BadResultError(f"{problem}; {path} is without it")


def _exit(played: Played, *, failed: bool) -> None:
    if played.partial:
        raise SystemExit(_INTERRUPTED)
    if failed:
        raise SystemExit(_UNREADABLE)
    if played.is_late:
        raise SystemExit(_LATE)

"""Sluice and its peers side by side: prints the tables, and writes docs/benchmarks.md.

python -m tests.bench [--rounds N] [--seconds S] [--only FIGURE]... [--quick]
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from tests.bench import machine, peers
from tests.bench.contenders import contenders
from tests.bench.figure import Bench
from tests.bench.figures import (
    bodies,
    core_decision,
    goodput,
    latency,
    memory,
    request_rate,
    sheds,
    streams,
)
from tests.bench.processes import ROOT, NotMeasuredError
from tests.bench.report import Setting, goal_section, page, section
from tests.bench.results import Results

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.figure import Figure

FIGURES: tuple[Figure, ...] = (
    request_rate.FIGURE,
    streams.FIGURE,
    latency.FIGURE,
    sheds.FIGURE,
    goodput.FIGURE,
    memory.FIGURE,
    core_decision.FIGURE,
    bodies.FIGURE,
)
_ROUNDS, _SECONDS, _STREAMS_HELD = 5, 2.0, 10_000
_QUICK_ROUNDS, _QUICK_SECONDS, _QUICK_STREAMS_HELD = 1, 1.0, 1_000
# Open files of a proxy that are no streams: its libraries, its log, its listeners.
_OTHER_FILES = 200


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    names = [figure.name for figure in FIGURES]
    parser.add_argument("--rounds", type=int, help=f"interleaved rounds; {_ROUNDS}")
    parser.add_argument("--seconds", type=float, help=f"length of a window; {_SECONDS:g}")
    parser.add_argument("--only", action="append", choices=names, help="some figures; no page")
    parser.add_argument("--quick", action="store_true", help="a short look; no page is written")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (_QUICK_ROUNDS if arguments.quick else _ROUNDS)
    arguments.seconds = arguments.seconds or (_QUICK_SECONDS if arguments.quick else _SECONDS)
    return arguments


def main() -> None:
    arguments = _arguments()
    figures = [one for one in FIGURES if not arguments.only or one.name in arguments.only]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what was started, as ^C does
    cores, open_files = machine.choose_cores(), machine.raise_open_files()
    installed = peers.set_up()
    load_average = ", ".join(f"{load:.2f}" for load in os.getloadavg())
    if os.getloadavg()[0] > 0.5:
        _say(f"the load average is {load_average}: this machine is busy, and figures will be noisy")
    os.sched_setaffinity(0, {cores.load})
    held = _QUICK_STREAMS_HELD if arguments.quick else _STREAMS_HELD
    scratch = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    try:
        bench = Bench(
            peers=installed,
            cores=cores,
            seconds=arguments.seconds,
            streams_held=min(held, (open_files - _OTHER_FILES) // 2),
            scratch=scratch,
        )
        results, rounds = _measure(bench, figures, arguments.rounds)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    setting = Setting(
        when=f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC",
        machine=machine.describe(),
        load_average=load_average,
        rounds=rounds,
        seconds=arguments.seconds,
        versions=peers.versions(installed),
    )
    print("\n\n".join([goal_section(figures, results), *(section(f, results) for f in figures)]))
    if not (arguments.quick or arguments.only) and rounds == arguments.rounds:
        target = ROOT / "docs" / "benchmarks.md"
        target.write_text(page(figures, results, setting))
        _say(f"wrote {target.relative_to(ROOT)}")


def _measure(bench: Bench, figures: Sequence[Figure], rounds: int) -> tuple[Results, int]:
    """Interrupted, it gives what the whole rounds before and the part of this one have shown."""
    results, done, began = Results(), 0, time.monotonic()
    with contextlib.suppress(KeyboardInterrupt):
        for number in range(1, rounds + 1):
            for figure in figures:
                _measure_figure(bench, figure, number, results)
            done = number
            _say(f"round {number} of {rounds} done after {time.monotonic() - began:.0f} s")
    return results, done


def _measure_figure(bench: Bench, figure: Figure, number: int, results: Results) -> None:
    everyone = contenders()
    for name in figure.contenders:
        try:
            measured = uvloop.run(figure.measure(bench, everyone[name]))
        # A proxy that falls over under load may do so in any way, and must not end the run.
        except (NotMeasuredError, OSError, TimeoutError) as why:
            told = f"{why}" or type(why).__name__
            results.failed(figure.name, name, told)
            _say(f"{number} {figure.name}: {name}: not measured: {told}")
        else:
            results.add(name, number, measured)
            shown = ", ".join(f"{key} {value:,.5g}" for key, value in measured.items())
            _say(f"{number} {figure.name}: {name}: {shown}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

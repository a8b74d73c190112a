"""Overload, with and without Sluice: prints the tables, and writes docs/overload.md.

python -m tests.bench.storm [--engine vllm|sim]... [--rounds N] [--seconds S] [--times 3,10]
                            [--only NAME]... [--quick] [--page FILE]
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
from tests.bench.processes import ROOT
from tests.bench.report import Setting
from tests.bench.storm.engines import Kind, vllm_version
from tests.bench.storm.page import page, section
from tests.bench.storm.results import Results
from tests.bench.storm.rounds import Plan, Rounds
from tests.bench.storm.rows import WAYS, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROUNDS, _SECONDS, _QUICK_SECONDS = 3, 40.0, 10.0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    names = [way.name for way in WAYS]
    parser.add_argument("--engine", action="append", choices=[*Kind], help="one of them; no page")
    parser.add_argument("--rounds", type=int, help=f"interleaved rounds; {_ROUNDS}")
    parser.add_argument("--seconds", type=float, help=f"length of a storm; {_SECONDS:g}")
    parser.add_argument("--times", type=_times, default=(3.0, 10.0), help="the closed loop; 3,10")
    parser.add_argument("--only", action="append", choices=names, help="some ways; no page")
    parser.add_argument("--quick", action="store_true", help="a short look; no page is written")
    parser.add_argument("--page", type=Path, help="write it there, whatever was measured")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (1 if arguments.quick else _ROUNDS)
    arguments.seconds = arguments.seconds or (_QUICK_SECONDS if arguments.quick else _SECONDS)
    return arguments


def _times(text: str) -> tuple[float, ...]:
    return tuple(sorted(float(one) for one in text.split(",")))


def main() -> None:
    arguments = _arguments()
    for ending in (signal.SIGTERM, signal.SIGHUP):  # end what was started, as ^C does
        signal.signal(ending, signal.default_int_handler)
    kinds = [Kind(one) for one in arguments.engine or Kind]
    cores = machine.choose_cores()
    machine.raise_open_files()
    installed = peers.set_up()
    versions = peers.versions(installed)
    for no_part_in_this in ("wrk", "FastAPI proxies"):
        versions.pop(no_part_in_this, None)
    if Kind.VLLM in kinds:
        versions = {"vLLM": vllm_version(), **versions}
    load_average = ", ".join(f"{load:.2f}" for load in os.getloadavg())
    os.sched_setaffinity(0, {cores.load})
    scratch = Path(tempfile.mkdtemp(prefix="sluice-storm-"))
    plan = Plan(rows(arguments.times, arguments.only), arguments.seconds)
    found = {kind: Results() for kind in kinds}
    engines = [
        Rounds(kind, installed, cores.proxy, cores.load, scratch, results)
        for kind, results in found.items()
    ]
    try:
        done = _measure(engines, plan, arguments.rounds)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    setting = Setting(
        when=f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC",
        machine=machine.describe(),
        load_average=load_average,
        rounds=done,
        seconds=arguments.seconds,
        versions=versions,
    )
    for kind, results in found.items():
        print(section(kind, results, arguments.times, arguments.only), end="\n\n")
    if target := _target(arguments, done):
        target.write_text(page(found, arguments.times, setting, arguments.only))
        print(f"wrote {target}", file=sys.stderr)


def _measure(engines: Sequence[Rounds], plan: Plan, rounds: int) -> int:
    """How many rounds were made whole. Interrupted, the part of the next one counts as well."""
    done, began = 0, time.monotonic()
    with contextlib.suppress(KeyboardInterrupt):
        for number in range(1, rounds + 1):
            for engine in engines:
                uvloop.run(engine.run(plan, number))
            done = number
            took_s = time.monotonic() - began
            print(f"round {number} done after {took_s:.0f} s", file=sys.stderr, flush=True)
    return done


def _target(arguments: argparse.Namespace, rounds: int) -> Path | None:
    """The page of the documentation is for whole runs; any other has to be asked for."""
    if arguments.page:
        return Path(arguments.page)
    is_partial = arguments.quick or arguments.only or arguments.engine
    return None if is_partial or rounds < arguments.rounds else ROOT / "docs" / "overload.md"


if __name__ == "__main__":
    main()

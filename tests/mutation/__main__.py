"""`make mutation`: changes the core bit by bit, and shows the changes that no test notices.

Exit 0 when each mutant is killed, runs for ever or is explained in explained.toml; 1 when not, or
when a test notices one that is explained.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutation.explanations import explanations
from tests.mutation.mutants import Mutant, all_modules, mutants_of
from tests.mutation.session import (
    QUICK,
    SLOW,
    MutantsOfFunctions,
    judge_afresh,
    prepare_hypothesis,
    run_pytest,
)
from tests.mutation.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

Verdicts = dict[Mutant, Verdict]


def main() -> int:
    arguments = _arguments()
    mutants = [one for module in arguments.modules for one in mutants_of(module)]
    if arguments.only:
        mutants = [one for one in mutants if arguments.only in str(one)]
    if arguments.new:
        mutants = sorted(set(mutants) - _explained(mutants), key=str)
    prepare_hypothesis()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    began = time.monotonic()
    verdicts = _judge(mutants, QUICK, arguments.at_once)
    explained = _explained(mutants)
    if not arguments.quick:
        survivors = _survivors(verdicts) - explained
        verdicts |= _judge(sorted(survivors, key=str), SLOW, arguments.at_once)
    unexplained = _survivors(verdicts) - explained
    noticed = explained - _survivors(verdicts)
    _print_table(verdicts, explained, time.monotonic() - began)
    _print_list("No test notices, and nobody says why", unexplained)
    _print_list("Explained, but a test notices", noticed)
    return 1 if unexplained or noticed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", help="such as gate or limits/aimd; else all of them")
    parser.add_argument("--only", help="mutants whose description has this in it")
    parser.add_argument("--new", action="store_true", help="only those that nobody has explained")
    parser.add_argument("--quick", action="store_true", help="without properties and scenarios")
    parser.add_argument("--at-once", type=int, default=2, help="processes side by side")
    arguments = parser.parse_args()
    known = all_modules()
    arguments.modules = arguments.modules or known
    for module in arguments.modules:
        if module not in known:
            parser.error(f"no module {module}; there are {', '.join(known)}")
    return arguments


def _judge(mutants: list[Mutant], tests: tuple[str, ...], at_once: int) -> Verdicts:
    if not mutants:
        return {}
    verdicts, afresh = _in_a_session(mutants, tests, at_once)
    for mutant, verdict in judge_afresh(afresh, at_once, tests):
        verdicts[mutant] = verdict
        _print_progress(mutant, verdict)
    return verdicts


def _in_a_session(
    mutants: list[Mutant], tests: tuple[str, ...], at_once: int
) -> tuple[Verdicts, list[Mutant]]:
    """In a process of its own, so that this one goes on knowing nothing of the project's modules.
    Those that have to be judged elsewhere are returned too."""
    by_name = {str(one): one for one in mutants}
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "verdicts")
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os._exit(_session(mutants, tests, at_once, told))
        try:
            _, status = os.waitpid(pid, 0)
        except BaseException:
            os.kill(pid, signal.SIGTERM)
            raise
        if status != 0:
            raise SystemExit("the tests do not pass as they are")
        lines = [line.partition("\t") for line in told.read_text().splitlines()]
    verdicts = {by_name[name]: Verdict(verdict) for verdict, _, name in lines}
    return verdicts, [one for one in mutants if one not in verdicts]


def _session(mutants: list[Mutant], tests: tuple[str, ...], at_once: int, told: Path) -> int:
    with told.open("w", buffering=1) as out:

        def report(mutant: Mutant, verdict: Verdict) -> None:
            out.write(f"{verdict}\t{mutant}\n")
            _print_progress(mutant, verdict)

        return run_pytest(tests, MutantsOfFunctions(mutants, at_once, report))


def _survivors(verdicts: Verdicts) -> set[Mutant]:
    return {one for one, verdict in verdicts.items() if verdict is Verdict.SURVIVED}


def _explained(mutants: list[Mutant]) -> set[Mutant]:
    reasons = explanations()
    return {one for one in mutants if any(reason.explains(one) for reason in reasons)}


def _print_progress(mutant: Mutant, verdict: Verdict) -> None:
    if verdict is not Verdict.KILLED:
        _say(f"{verdict:>9}  {mutant}")


def _print_table(verdicts: Verdicts, explained: set[Mutant], took_s: float) -> None:
    columns = ("mutants", "killed", "timed out", "explained", "unexplained")
    rows: dict[str, Counter[str]] = {}
    for mutant, verdict in verdicts.items():
        what = str(verdict)
        if verdict is Verdict.SURVIVED:
            what = "explained" if mutant in explained else "unexplained"
        rows.setdefault(mutant.module, Counter()).update([what, "mutants"])
    rows["all"] = sum(rows.values(), Counter())
    _say(f"\n| module | {' | '.join(columns)} |\n| --- |{' ---: |' * len(columns)}")
    for module, counts in rows.items():
        _say(f"| {module} | {' | '.join(str(counts[column]) for column in columns)} |")
    minutes = took_s / 60
    _say(f"\n{minutes:.1f} minutes, {len(verdicts) / minutes:.0f} mutants a minute")


def _print_list(title: str, mutants: Iterable[Mutant]) -> None:
    lines = sorted(mutants, key=lambda one: (one.module, one.line, one.change))
    if lines:
        _say(f"\n{title}:")
    for one in lines:
        _say(f"  {one}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

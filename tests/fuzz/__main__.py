"""`make fuzz MINUTES=N`: the fuzz tests for as long as one likes, each for its part of the time.

    python -m tests.fuzz --minutes 10 [--only bodies] [--engine hypothesis]

With atheris (`pip install atheris`, which has wheels for Linux and needs no more) libFuzzer chooses
the bytes, led by what of proxy/ they reach, and Hypothesis makes examples of them; without it,
Hypothesis makes as many as it can by itself. Each target runs in a process of its own, which prints
the arguments of what it found and ends; the others go on. Exits with 1 if anything was found.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.fuzz.one_target import names_of_targets

_CORPUS = Path("build/fuzz")
_GRACE_S = 120


def main() -> int:
    asked = _arguments()
    targets = [name for name in names_of_targets() if asked.only in name]
    seconds = max(round(60 * asked.minutes / max(len(targets), 1)), 1)
    _say(f"{len(targets)} targets, {seconds} s each, with {asked.engine}")
    found = [name for name in targets if not _went_well(name, asked.engine, seconds)]
    _say(f"found something: {', '.join(found)}" if found else "nothing was found")
    return 1 if found else 0


def _arguments() -> argparse.Namespace:
    has_atheris = importlib.util.find_spec("atheris") is not None
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--only", default="", help="part of the names of targets")
    parser.add_argument(
        "--engine",
        choices=("atheris", "hypothesis"),
        default="atheris" if has_atheris else "hypothesis",
    )
    return parser.parse_args()


def _went_well(name: str, engine: str, seconds: int) -> bool:
    corpus = _CORPUS / name.replace(":", ".")
    corpus.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    command = [sys.executable, "-m", "tests.fuzz.one_target", name, engine, str(seconds), corpus]
    try:
        ended = subprocess.run(  # noqa: S603 - our own interpreter
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds + _GRACE_S,
        )
        well, said = ended.returncode == 0, ended.stdout + ended.stderr
    except subprocess.TimeoutExpired as hung:
        well, said = False, f"did not end: {hung}"
    examples = next((line for line in said.splitlines() if line.startswith("examples:")), "")
    if well and not re.match("examples: [1-9]", examples):  # nothing was tried: nothing is shown
        well, said = False, f"not one example: {said}"
    _say(f"{'ok   ' if well else 'FOUND'} {name} {time.monotonic() - start:.0f} s {examples}")
    if not well:
        _say(said[-6000:])
    return well


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


sys.exit(main())

"""Half an hour of clients that misbehave and engines that fail; `make soak`.

python -m tests.soak [--minutes 30 | --short] [--connections 2000] [--seed 8]

Prints a table, writes build/soak.json; exits with 1 and says what failed, if something did.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from tests.bench import machine
from tests.bench.processes import ROOT
from tests.soak.plan import SHORT, Plan
from tests.soak.report import as_json, failures, table
from tests.soak.soak import Soak


def _plan() -> tuple[Plan, Path]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--short", action="store_true", help="ten seconds, as CI does it")
    parser.add_argument("--connections", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "soak.json")
    asked = parser.parse_args()
    plan = SHORT if asked.short else Plan(seconds=60 * asked.minutes)
    chosen = {
        name: value
        for name in ("connections", "seed")
        if (value := getattr(asked, name)) is not None
    }
    return dataclasses.replace(plan, **chosen), asked.json


def main() -> None:
    plan, target = _plan()
    for ending in (signal.SIGTERM, signal.SIGHUP):  # end what was started, as ^C does
        signal.signal(ending, signal.default_int_handler)
    machine.raise_open_files()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:6.0f} s] {text}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="sluice-soak-") as scratch:
        result = uvloop.run(Soak(plan, Path(scratch), say).run())
    wrong = failures(result)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"machine": machine.describe(), **as_json(result)}) + "\n")
    print(table(result))
    print("\n".join(["FAILED", *wrong]) if wrong else "passed")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

"""Runs the core and scenario suites on every Python that Sluice is for and that is here, and the
gateway's process on either event loop. Prints a table, and which Pythons were not here.

    python -m scripts.test_versions [--quick] [--newest] [--only VERSION]... [--python COMMAND]...

Looks for python3.11 and so on in the path, and in pyenv; COMMAND names one that stands elsewhere.
Each has an environment beside the project's. --quick leaves out what takes long, and processes;
--newest takes only the newest of those that are not the one that runs this, and --only 3.12 that
one. Exit 1: a test failed, a suite ran none, or what was asked for by --only is not here.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from scripts.check_junit import problems, read_allowed, read_report

ROOT = Path(__file__).parents[1]
_ALLOWED_SKIPS = read_allowed(ROOT / ".ci" / "allowed-skips.txt")
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
LOOPS = ("uvloop", "asyncio")

_CORE = ("tests/unit", "tests/properties", "tests/scenarios", "tests/conformance")
# The command lines start processes, and the implementations of the HTTP client wait for timeouts.
_QUICK = ("tests/unit", "tests/properties", "tests/scenarios", "--ignore=tests/unit/cli")
PROCESSES = (
    "tests/e2e/test_connections.py",
    "tests/e2e/test_disconnects.py",
    "tests/e2e/test_framing.py",
    "tests/e2e/test_shutdown.py",
    "tests/e2e/test_streaming.py",
)


@dataclass(frozen=True)
class Interpreter:
    version: str
    command: str

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])


@dataclass(frozen=True)
class Ran:
    """One suite on one Python. `loop` is the gateway's, where it is a process of its own."""

    version: str
    suite: str
    loop: str
    passed: int
    failed: tuple[str, ...]
    seconds: float


def ask_version(command: str) -> Interpreter | None:
    """None for what does not run: a name on the path may be a launcher for what is not there."""
    asked = "import ensurepip, sys, venv; print('%d.%d.%d' % sys.version_info[:3])"
    try:
        answer = subprocess.run(  # noqa: S603 - the interpreters of whoever runs this
            [command, "-c", asked], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return Interpreter(answer.stdout.strip(), command)


def candidates(named: list[str]) -> list[str]:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return [
        *named,
        *(f"python{version}" for version in VERSIONS),
        *(str(path / "bin" / "python") for path in sorted(pyenv.glob("3.*"), reverse=True)),
    ]


def found(commands: list[str]) -> list[Interpreter]:
    """The first of each version, the oldest version first."""
    by_version: dict[str, Interpreter] = {}
    for command in commands:
        one = ask_version(command)
        if one is not None and one.minor in VERSIONS:
            by_version.setdefault(one.minor, one)
    return [by_version[version] for version in VERSIONS if version in by_version]


def environment_of(one: Interpreter) -> Path:
    """Its python, with Sluice and what the tests need; made anew when pyproject.toml changed."""
    venv = ROOT / f".venv-python{one.minor}"
    stamp = venv / ".installed-test"
    if not stamp.exists() or stamp.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        maker = [str(ROOT / "scripts" / "make_venv.sh"), str(venv), one.command, "test"]
        subprocess.run(maker, cwd=ROOT, check=True)  # noqa: S603 - ours
        stamp.touch()
    return venv / "bin" / "python"


def run_suite(
    python: Path, one: Interpreter, suite: str, tests: tuple[str, ...], loop: str = ""
) -> Ran:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            *(str(python), "-m", "pytest", "-q", "-n", "auto", "-p", "no:cacheprovider"),
            *("-m", "not alone and not vllm", f"--junitxml={report}"),
            *("--dist", "loadfile" if loop else "worksteal"),
            *tests,
        ]
        environment = {**os.environ, "SLUICE_TEST_EVENT_LOOP": loop or "auto"}
        subprocess.run(command, cwd=ROOT, env=environment, check=False)  # noqa: S603 - ours
        passed, failed = counted(report)
    return Ran(one.version, suite, loop, passed, failed, time.monotonic() - began)


def counted(report: Path) -> tuple[int, tuple[str, ...]]:
    """How many passed, or failed as they are marked to; and what is wrong, skipped tests that are
    not allowed to be among it."""
    if not report.exists():
        return 0, ("no report: the run broke off",)
    read = read_report(report)
    return len(read.passed) + len(read.failed_as_stated), tuple(problems(read, _ALLOWED_SKIPS))


def ran_on(one: Interpreter, *, quick: bool) -> list[Ran]:
    python = environment_of(one)
    if quick:
        return [run_suite(python, one, "in one process, the quick ones", _QUICK)]
    return [
        run_suite(python, one, "core and scenarios", _CORE),
        *(run_suite(python, one, "processes", PROCESSES, loop) for loop in LOOPS),
    ]


def table(runs: list[Ran]) -> str:
    """As it stands in docs/architecture.md."""
    lines = ["| Python | suite | loop of the gateway | passed | failed | s |", "|" + " --- |" * 6]
    lines += [
        f"| {run.version} | {run.suite} | {run.loop or 'in virtual time, or both'} "
        f"| {run.passed} | {len(run.failed)} | {run.seconds:.0f} |"
        for run in runs
    ]
    return "\n".join(lines)


def report(runs: list[Ran], here: list[Interpreter]) -> int:
    print("\n" + table(runs) + "\n")
    absent = [version for version in VERSIONS if version not in {one.minor for one in here}]
    print(f"Not here, and not tried: {', '.join(absent) or 'none'}")
    for run in runs:
        for test in run.failed:
            print(f"{run.version} {run.loop}: {test}")
    failed = sum(len(run.failed) for run in runs)
    print(f"{sum(run.passed for run in runs)} passed, {failed} failed")
    return 1 if failed or not all(run.passed for run in runs) else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", action="append", default=[], metavar="COMMAND")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--newest", action="store_true")
    parser.add_argument("--only", action="append", default=[], choices=VERSIONS)
    asked = parser.parse_args(arguments)
    here = found(candidates(asked.python))
    chosen = here
    if asked.newest:
        own = ".".join(map(str, sys.version_info[:2]))
        chosen = [one for one in here if one.minor != own][-1:]
    if asked.only:
        chosen = [one for one in here if one.minor in asked.only]
        if len(chosen) < len(set(asked.only)):
            print(f"Not all of {', '.join(asked.only)} are here: name one by --python COMMAND.")
            return 1
    if not chosen:
        print("There is no other Python here than the one that runs all other tests.")
        return 0
    return report([run for one in chosen for run in ran_on(one, quick=asked.quick)], here)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Judges a test run by its JUnit report: did tests run, and did none of them hide?

    python scripts/check_junit.py REPORT ALLOWED_SKIPS

A suite that ran nothing is broken however green it looks, and a skipped test is one that nobody
runs. So a skip fails the run unless ALLOWED_SKIPS names it: one line each, a pattern for
"module::test" (`*` stands for anything), then `#` and the reason. A test that is marked to fail did
run, and pytest is told to be strict about it: it counts as passed, and how many there are is said.
The last line printed has the form "N passed, N failed, N skipped". Exit 0 sound, 1 not.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from xml.etree import ElementTree as ET


@dataclass(frozen=True)
class Report:
    """Test names by how the test ended."""

    passed: tuple[str, ...]
    failed: tuple[str, ...]
    skipped: tuple[str, ...]
    failed_as_stated: tuple[str, ...] = ()


def read_report(path: Path) -> Report:
    ended: dict[str, list[str]] = {
        "passed": [],
        "failed": [],
        "skipped": [],
        "failed_as_stated": [],
    }
    for case in ET.parse(path).iter("testcase"):  # noqa: S314 - pytest wrote it just now
        name = f"{case.get('classname')}::{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            ended["failed"].append(name)
        elif (skip := case.find("skipped")) is not None:
            as_stated = skip.get("type") == "pytest.xfail"
            ended["failed_as_stated" if as_stated else "skipped"].append(name)
        else:
            ended["passed"].append(name)
    return Report(**{how: tuple(names) for how, names in ended.items()})


def read_allowed(path: Path) -> list[str]:
    """The patterns. Raises ValueError for one without a reason."""
    lines = [line.strip() for line in path.read_text().splitlines()]
    entries = [line for line in lines if line and not line.startswith("#")]
    for entry in entries:
        if not entry.partition("#")[2].strip():
            raise ValueError(f"{path}: no reason given for {entry!r}")
    return [entry.partition("#")[0].strip() for entry in entries]


def problems(report: Report, allowed: list[str]) -> list[str]:
    found = [f"failed: {name}" for name in report.failed]
    if not report.passed:
        found.append("no test ran")
    found += [
        f"skipped, and not on the list of allowed skips: {name}"
        for name in report.skipped
        if not any(fnmatchcase(name, pattern) for pattern in allowed)
    ]
    return found


def main(report_path: str, allowed_path: str) -> int:
    report = read_report(Path(report_path))
    found = problems(report, read_allowed(Path(allowed_path)))
    for problem in found:
        print(problem)
    if report.failed_as_stated:
        print(f"{len(report.failed_as_stated)} tests failed as they are marked to")
    passed = len(report.passed) + len(report.failed_as_stated)
    counts = (passed, len(report.failed), len(report.skipped))
    print("{} passed, {} failed, {} skipped".format(*counts))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Asks an advisory service about everything in the locks, by pip-audit, and says what came of it.

    python scripts/audit.py UV LOCK...

Exit 0: each package was asked about and has no known advisory. 1: some have. 2: nobody can tell,
for the service was not reached or does not know a package. pip-audit itself ends with 0 then, which
looks like a clean bill.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

CLEAN, VULNERABLE, NOBODY_KNOWS = 0, 1, 2
_WITHIN_S = 300


@dataclass(frozen=True)
class Verdict:
    exit_code: int
    lines: tuple[str, ...]


def judge(reports: dict[str, str]) -> Verdict:
    """Of what pip-audit has written for each lock, as JSON."""
    advisories: list[str] = []
    unknown: list[str] = []
    asked = 0
    for lock, written in reports.items():
        try:
            packages: list[dict[str, Any]] = json.loads(written)["dependencies"]
        except (ValueError, KeyError, TypeError):
            unknown.append(f"{lock}: no answer from the advisory service")
            continue
        for package in packages:
            name = f"{lock}: {package['name']} {package.get('version', '')}".rstrip()
            if "skip_reason" in package:
                unknown.append(f"{name}: {package['skip_reason']}")
                continue
            asked += 1
            advisories += [f"{name}: {_told(one)}" for one in package["vulns"]]
    if advisories:
        return Verdict(VULNERABLE, (*advisories, *unknown))
    if unknown or not asked:
        said = f"NOT AUDITED: of {len(unknown)} nobody can tell, {asked} have no known advisory"
        return Verdict(NOBODY_KNOWS, (*unknown, said))
    return Verdict(CLEAN, (f"{asked} packages, none with a known advisory",))


def _told(advisory: dict[str, Any]) -> str:
    fixed = ", ".join(advisory.get("fix_versions", ())) or "no version yet"
    return f"{advisory['id']}, fixed in {fixed}"


def ask(uv: str, lock: str) -> str:
    command = [uv, "tool", "run", "--quiet", "pip-audit", "--requirement", lock]
    command += ["--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off"]
    try:
        asked = subprocess.run(  # noqa: S603 - the tool that the caller names
            command, check=False, stdout=subprocess.PIPE, text=True, timeout=_WITHIN_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return asked.stdout


if __name__ == "__main__":
    tool, *locks = sys.argv[1:]
    verdict = judge({lock: ask(tool, lock) for lock in locks})
    print("\n".join(verdict.lines))
    sys.exit(verdict.exit_code)

"""`sluice demo` runs end to end: two engines, a gateway, clients, and a table."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from proxy.cli.demo import demo

if TYPE_CHECKING:
    from collections.abc import Callable


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    """What has ended and was not waited for is a zombie, whoever inherited it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.timeout(60)
def test_it_compares_the_same_requests_in_front_of_both() -> None:
    arguments = ["--seconds", "2", "--rate", "20", "--timeout", "2", "--retries", "0", "--json"]
    result = CliRunner().invoke(demo, arguments)

    assert result.exit_code == 0, result.output
    summaries = json.loads(result.stdout)
    assert set(summaries) == {"engine alone", "engine behind Sluice"}
    alone, behind = summaries.values()
    assert alone["offered"] == behind["offered"] > 20
    assert alone["refused_tries"] == 0
    assert behind["refused_tries"] > 0
    assert behind["good"] > 0


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--rate", "0"),
        ("--rate", "-1"),
        ("--rate", "inf"),
        ("--seconds", "0"),
        ("--timeout", "0"),
        ("--retries", "-1"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_before_anything_starts(
    option: str, value: str
) -> None:
    result = CliRunner().invoke(demo, [option, value])
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in result.output


@pytest.mark.timeout(60)
# Only Linux has this folder; CI allows no such skip, see .ci/allowed-skips.txt.
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks for children in /proc")
def test_a_demo_that_is_killed_leaves_no_process_behind() -> None:
    demo_process = subprocess.Popen(
        [sys.executable, "-m", "proxy", "demo", "--seconds", "30"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: len(children_of(demo_process.pid)) == 3)
        children = children_of(demo_process.pid)
    finally:
        demo_process.kill()
        demo_process.wait()
    until(lambda: not any(is_running(pid) for pid in children))


@pytest.mark.timeout(60)
def test_a_person_gets_a_table() -> None:
    result = CliRunner().invoke(demo, ["--seconds", "1", "--rate", "5", "--retries", "0"])

    assert result.exit_code == 0, result.output
    assert "good answers per second" in result.stdout
    assert "engine behind Sluice" in result.stdout

"""The soak in little: ten seconds, 300 connections, everything that happens in the long one.

`make soak` is the long one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.bench.processes import ROOT
from tests.soak.behaviours import BAD
from tests.soak.troubles import KINDS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_after_a_soak_nothing_is_lost_and_nothing_left_behind(tmp_path: Path) -> None:
    target = tmp_path / "soak.json"
    command = [sys.executable, "-m", "tests.soak", "--short", "--json", f"{target}"]
    done = subprocess.run(  # noqa: S603 - our own
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=140
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    shown = json.loads(target.read_text())
    assert shown["passed"]
    # Else it has shown less than it is to show; a busy machine does not get to everything.
    assert len(shown["troubles"]) >= len(KINDS) - 2
    assert len(shown["clients"]["bad"]) >= len(BAD) - 2
    assert shown["clients"]["verdicts"]["ok"] > 0
    assert shown["engine_looks"] > 0  # an engine that does not answer has been killed, or not
    assert shown["most_in_flight"] > 0
    assert shown["most_queued"] > 0

"""`python -m proxy` is the same command."""

from __future__ import annotations

import subprocess
import sys

from proxy import __version__


def test_the_module_runs_as_the_command() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "proxy", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout == f"sluice, version {__version__}\n"

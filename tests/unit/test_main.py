"""`sluice` and `python -m proxy` are one command."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from proxy import __version__


def test_the_module_runs_as_the_command() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "proxy", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout == f"sluice, version {__version__}\n"


def test_the_script_begins_where_the_module_does() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["scripts"] == {"sluice": "proxy.__main__:main"}


def test_the_module_provides_for_ctrl_c_before_it_imports_anything() -> None:
    script = "import sys, proxy.__main__; sys.exit('click' in sys.modules)"
    asked = subprocess.run([sys.executable, "-c", script], check=False)  # noqa: S603 - our own
    assert asked.returncode == 0

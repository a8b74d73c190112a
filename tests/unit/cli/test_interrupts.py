"""Whenever Ctrl-C comes, the program ends in one line and with exit code 130."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from proxy.cli.interrupts import end_at_once, raise_as_usual

if TYPE_CHECKING:
    from collections.abc import Iterator

# Presses Ctrl-C when a module is looked for.
_IMPATIENT = """
import os, runpy, signal, sys

class Impatient:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests ignores
sys.meta_path.insert(0, Impatient())
runpy.run_module("proxy", run_name="__main__")
"""


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("click", ["--help"]),
        ("proxy.cli.record", ["--help"]),
        ("proxy.cli.replay", ["replay", "http://127.0.0.1:1", "--rate", "1"]),
        ("msgspec", ["tune", "http://127.0.0.1:1"]),
    ],
)
def test_ctrl_c_while_modules_are_imported_is_one_line(module: str, arguments: list[str]) -> None:
    ended = subprocess.run(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-c", _IMPATIENT.format(module=module), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr, ended.stdout) == (130, "interrupted\n", "")


def test_a_command_that_runs_is_interrupted_as_usual() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    end_at_once()
    assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert raise_as_usual()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not raise_as_usual()


def test_who_shall_not_hear_of_ctrl_c_does_not() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_at_once()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert not raise_as_usual()

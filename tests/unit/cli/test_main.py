"""The `sluice` command itself."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner, Result

import proxy.cli
from proxy import __version__
from proxy.cli.main import sluice

pytestmark = pytest.mark.usefixtures("clean_environment")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(sluice, list(arguments))


def test_the_version_is_told() -> None:
    assert invoke("--version").output == f"sluice, version {__version__}\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_has_examples_and_every_command_that_is_there(flag: str) -> None:
    result = invoke(flag)
    assert result.exit_code == 0, result.output
    assert "Examples:" in result.output
    for name in ("serve", "check", "sim"):
        assert f"\n  {name} " in result.output


def test_every_module_that_is_a_command_is_offered() -> None:
    modules = {name for _, name, _ in pkgutil.iter_modules(proxy.cli.__path__)}
    commands = {
        name
        for name in modules
        if isinstance(
            getattr(importlib.import_module(f"proxy.cli.{name}"), name, None), click.Command
        )
    }
    assert set(sluice.list_commands(click.Context(sluice))) == commands


@pytest.mark.parametrize("name", sluice.list_commands(click.Context(sluice)))
def test_every_command_has_help_with_examples(name: str) -> None:
    result = invoke(name, "--help")
    assert result.exit_code == 0
    assert "Example" in result.output


def test_an_unknown_command_is_refused() -> None:
    result = invoke("srve")
    assert result.exit_code == 2
    assert "No such command 'srve'" in result.stderr


def test_bad_settings_are_one_line_each_on_standard_error_and_exit_2(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLUICE_PROT", "1")
    monkeypatch.setenv("SLUICE_PORT", "x")
    result = invoke("serve")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "error: SLUICE_PROT: no such setting; did you mean SLUICE_PORT?",
        "error: SLUICE_PORT=x: must be a whole number from 0 to 65535",
    ]


def test_a_command_that_is_interrupted_ends_in_one_line_and_exit_130(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(_overrides: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("proxy.cli.serve.load_settings", interrupted)
    result = invoke("serve")
    assert (result.exit_code, result.stderr, result.stdout) == (130, "interrupted\n", "")


def test_a_command_that_ends_with_an_exit_code_does_not_wait_for_settings() -> None:
    script = (
        "import sys; sys.argv[1:] = ['compare', 'none.json', 'none.json']\n"
        "from proxy.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: sys.exit('proxy.config' in sys.modules)"
    )
    asked = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)  # noqa: S603 - our own
    assert asked.returncode == 0


def test_asking_for_help_loads_no_engine_room() -> None:
    script = "import sys, proxy.cli.main; sys.exit('uvicorn' in sys.modules)"
    asked = subprocess.run([sys.executable, "-c", script], check=False)  # noqa: S603 - our own
    assert asked.returncode == 0

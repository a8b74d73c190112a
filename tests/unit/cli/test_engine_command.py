"""Which program starts the engine, and what may be shown of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
import pytest

from proxy.cli.engine_command import engine_command, shown

if TYPE_CHECKING:
    from pathlib import Path


def program(folder: Path, name: str = "vllm") -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_vllm_on_the_path_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert engine_command(None) == ("vllm", "serve")


def test_else_the_one_beside_our_own_interpreter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    beside = program(tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert engine_command(None) == (str(beside), "serve")


def test_the_programs_of_an_environment_that_is_not_activated_are_found_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    beside = program(tmp_path, "sluice")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert engine_command("sluice sim") == (str(beside), "sim")


def test_without_any_one_line_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(click.ClickException, match=r"activate the environment .* --command"):
        engine_command(None)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("{}/vllm serve", ("{}/vllm", "serve")),
        ("{}/vllm", ("{}/vllm", "serve")),
        ("{}/python -m 'a b'", ("{}/python", "-m", "a b")),
        ("{}/python", ("{}/python",)),
    ],
)
def test_a_command_may_be_said_in_full(
    tmp_path: Path, written: str, words: tuple[str, ...]
) -> None:
    program(tmp_path)
    program(tmp_path, "python")
    assert engine_command(written.format(tmp_path)) == tuple(
        word.format(tmp_path) for word in words
    )


@pytest.mark.parametrize("written", ["", "no-such-program serve", "vllm 'serve"])
def test_a_command_that_cannot_be_run_is_one_line(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(click.ClickException, match="--command"):
        engine_command(written)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("vllm serve m --api-key sk-1 --port 1", "vllm serve m --api-key *** --port 1"),
        ("vllm serve m --api-key sk-1 sk-2 --port 1", "vllm serve m --api-key *** *** --port 1"),
        ("vllm serve m --api_key=sk-1 --port 1", "vllm serve m --api_key=*** --port 1"),
    ],
)
def test_a_key_is_not_shown(command: str, line: str) -> None:
    assert shown(tuple(command.split())) == line


def test_what_a_shell_would_take_apart_is_quoted() -> None:
    assert shown(("vllm", "serve", "a b")) == "vllm serve 'a b'"

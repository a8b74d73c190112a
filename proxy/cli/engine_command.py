"""The program that `sluice up` starts an engine with."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import click

_NAME = "vllm"
_NOT_FOUND = (
    "vllm is not found: activate the environment that it is installed in, or say how it is "
    "started with --command 'PATH/TO/vllm serve'; --command 'sluice sim' tries this out without it"
)


def engine_command(written: str | None) -> tuple[str, ...]:
    """The words in front of the engine's arguments. `written`: as --command gave it.

    Raises ClickException, with one line, when there is no such program.
    """
    if written is None:
        installed = _found(_NAME)
        if installed is None:
            raise click.ClickException(_NOT_FOUND)
        return (installed, "serve")
    try:
        words = tuple(shlex.split(written))
    except ValueError as error:
        raise click.UsageError(f"--command {written!r}: {error}".lower()) from None
    program = _found(words[0]) if words else None
    if program is None:
        raise click.ClickException(f"--command {written!r}: there is no such program")
    is_bare = len(words) == 1 and Path(program).name == _NAME
    return (program, "serve") if is_bare else (program, *words[1:])


def shown(command: tuple[str, ...]) -> str:
    """For a shell, the key that the engine asks for left out."""
    words, hidden = [], False
    for word in command:
        name, has_value, _ = word.partition("=")
        is_key = name.replace("_", "-") == "--api-key"
        if is_key and has_value:
            words.append(f"{name}=***")
        else:
            words.append("***" if hidden and not word.startswith("-") else shlex.quote(word))
        hidden = (is_key and not has_value) or (hidden and not word.startswith("-"))
    return " ".join(words)


def _found(name: str) -> str | None:
    """On PATH, or beside our interpreter, whose environment may not be activated."""
    if shutil.which(name) is not None:
        return name
    beside = Path(sys.executable).with_name(name)
    return str(beside) if Path(name).name == name and beside.is_file() else None

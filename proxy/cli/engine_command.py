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
        return (_installed(), "serve")
    try:
        words = tuple(shlex.split(written))
    except ValueError as error:
        raise click.UsageError(f"--command {written!r}: {error}".lower()) from None
    if not words or shutil.which(words[0]) is None:
        raise click.ClickException(f"--command {written!r}: there is no such program")
    return (*words, "serve") if len(words) == 1 and Path(words[0]).name == _NAME else words


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


def _installed() -> str:
    if shutil.which(_NAME) is not None:
        return _NAME
    beside = Path(sys.executable).with_name(_NAME)  # an environment that is not activated
    if beside.is_file():
        return str(beside)
    raise click.ClickException(_NOT_FOUND)

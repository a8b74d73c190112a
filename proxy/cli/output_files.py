"""Files that are written at the end of a long run are tried before it begins."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pathlib import Path

_BAD_OUTPUT = 2


def refuse_unwritable(*paths: Path | None) -> None:
    """Ends the command with a line for the first one that could not be written. Writes nothing:
    an earlier file stays as it is until there is something to put in its place."""
    for path in paths:
        problem = None if path is None else _problem(path)
        if problem is not None:
            click.echo(f"error: {path}: {problem}", err=True)
            raise SystemExit(_BAD_OUTPUT)


def _problem(path: Path) -> str | None:
    if str(path) == "-":
        return "name a file; this one is not written to standard output"
    number = _error_number(path)
    return None if number is None else os.strerror(number)


def _error_number(path: Path) -> int | None:
    if path.is_dir():
        return errno.EISDIR
    if path.exists() and not os.access(path, os.W_OK):
        return errno.EACCES
    if not path.parent.is_dir():
        return errno.ENOENT
    if not path.exists() and not os.access(path.parent, os.W_OK | os.X_OK):
        return errno.EACCES
    return None

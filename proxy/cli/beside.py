"""Child processes that serve a URL, for as long as a command needs them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from typing import IO, TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_URL = re.compile(r"http://[^\s/]+")
_STOP_WITHIN_S = 5.0


@contextlib.contextmanager
def simulated_engine_beside(max_num_seqs: int, *, quiet: bool = False) -> Iterator[str]:
    """Starts `sluice sim` on a free port of the loopback interface; gives its base URL.

    It ends when its standard input does, and so does not outlive us, however we end.
    """
    command = [sys.executable, "-m", "proxy", "sim", "--host", "127.0.0.1", "--port", "0"]
    options = ["--max-num-seqs", str(max_num_seqs), "--exit-with-stdin"]
    with child_serving_url([*command, *options], quiet=quiet) as url:
        yield url


@contextlib.contextmanager
def child_serving_url(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    quiet: bool = False,
) -> Iterator[str]:
    """Runs a command that prints the URL it serves; gives that URL, and stops it with SIGTERM.

    The child gets a session of its own: Ctrl-C on the terminal is for us, who stop it in our time.
    `quiet` keeps its log to itself unless it fails. Raises ClickException when it ends without
    having printed a URL.
    """
    log = tempfile.TemporaryFile(mode="w+") if quiet else None  # noqa: SIM115 - closed below
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=environment,
        text=True,
        start_new_session=True,
    )
    try:
        url = _read_url(process)
        if url is None:
            said = _read_back(log) if log else ""
            raise click.ClickException(f"'{' '.join(command[1:])}' did not start. {said}".strip())
        yield url
    finally:
        process.terminate()
        try:
            process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout, log):
            if pipe is not None:
                pipe.close()


def end_with_stdin() -> None:
    """For the child's side: SIGTERM to ourselves when standard input ends, as it does with a
    parent, however that ends."""
    threading.Thread(target=_read_stdin_to_its_end, name="stdin", daemon=True).start()


def _read_stdin_to_its_end() -> None:
    while os.read(sys.stdin.fileno(), 4096):  # a buffered reader would be locked when we exit
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _read_url(process: subprocess.Popen[str]) -> str | None:
    if process.stdout is not None:
        for line in process.stdout:
            if found := _URL.search(line):
                return found.group()
    return None


def _read_back(log: IO[str]) -> str:
    log.seek(0)
    return log.read().strip()

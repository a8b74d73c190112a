"""The simulated engine as a process of its own, for as long as the gateway runs."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

_URL = re.compile(r"http://\S+")
_STOP_WITHIN_S = 5.0


@contextlib.contextmanager
def simulated_engine_beside(max_num_seqs: int) -> Iterator[str]:
    """Starts `sluice sim` on a free port of the loopback interface; gives its base URL.

    It gets a session of its own: Ctrl-C on the terminal is for the gateway, which drains first.
    """
    command = [sys.executable, "-m", "proxy", "sim", "--host", "127.0.0.1", "--port", "0"]
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [*command, "--max-num-seqs", str(max_num_seqs)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield _wait_for_url(process)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _wait_for_url(process: subprocess.Popen[str]) -> str:
    if process.stdout is not None:
        for line in process.stdout:
            if found := _URL.search(line):
                return found.group().rstrip(".,)")
    raise click.ClickException("the simulated engine did not start; its own message is above")

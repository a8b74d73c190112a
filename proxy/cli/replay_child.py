"""One run of `sluice replay` in a process of its own, whose result file is read back.

Its own process, so that what a tuning keeps of earlier trials costs the next one no time. It ends
when its standard input does, and so does not outlive us, however we end.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from proxy.replay.result import BadResultError, read_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.replay.result import ReplayResult

_STOP_WITHIN_S = 5.0
_LONGEST_COMPLAINT = 2000


def replay_once(url: str, options: Sequence[str]) -> ReplayResult:
    """Raises ClickException with what the replay said when it left no result."""
    command = [sys.executable, "-m", "proxy", "replay", url, "--exit-with-stdin"]
    with tempfile.TemporaryDirectory(prefix="sluice-tune-") as folder:
        path = Path(folder) / "result.json"
        result = result_of_command([*command, "--output", str(path), *options], path)
    if result.run.partial:
        raise click.ClickException("the replay was broken off by somebody else")
    return result


def result_of_command(command: Sequence[str], path: Path) -> ReplayResult:
    """The result that the command writes to `path`. Whatever ends us early ends it, too: its
    standard input is a pipe of which we hold the other end."""
    complaints = path.with_name("stderr")
    with complaints.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
        try:
            process.wait()
        finally:
            _stop(process)
    try:
        return read_result(path)
    except BadResultError as error:
        said = complaints.read_text(errors="replace").strip()[-_LONGEST_COMPLAINT:]
        said = said.removeprefix("error: ") or str(error)
        raise click.ClickException(f"the replay left no result: {said}") from error


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Nothing to do once it has ended by itself."""
    process.terminate()
    try:
        process.wait(_STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        process.stdin.close()

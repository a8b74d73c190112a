"""A replay in a process of its own: its result, or what it complained of; never a stray process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import click
import msgspec
import pytest

from proxy.cli import replay_child as module
from proxy.cli.replay_child import replay_once, result_of_command
from proxy.replay.result import write_result
from tests.support.replay_records import RUN, completed, result_of

if TYPE_CHECKING:
    from pathlib import Path

RESULT = result_of(completed(0.0))


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def test_the_result_that_it_writes_is_read(tmp_path: Path) -> None:
    write_result(RESULT, tmp_path / "made.json")
    copy = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])"
    command = python(copy, tmp_path / "made.json", tmp_path / "result.json")
    assert result_of_command(command, tmp_path / "result.json") == RESULT


def test_without_a_result_its_own_words_are_passed_on(tmp_path: Path) -> None:
    command = python("import sys; sys.exit('no such engine')")
    with pytest.raises(click.ClickException, match=r"left no result: no such engine"):
        result_of_command(command, tmp_path / "result.json")


def test_one_that_says_nothing_left_no_file(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match=r"result\.json: No such file"):
        result_of_command(python("pass"), tmp_path / "result.json")


def test_whoever_breaks_it_off_ends_it_too(tmp_path: Path) -> None:
    """The child tells its process id, and an interrupt comes while it is waited for."""
    pid_file = tmp_path / "pid"
    os.mkfifo(pid_file)
    pids: list[int] = []

    def interrupt() -> None:
        pids.append(int(pid_file.read_text()))
        os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=interrupt)
    watcher.start()
    code = "import os, signal, sys; open(sys.argv[1], 'w').write(str(os.getpid())); signal.pause()"
    with pytest.raises(KeyboardInterrupt):
        result_of_command(python(code, pid_file), tmp_path / "result.json")
    watcher.join()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_parent_that_is_killed_takes_it_along(tmp_path: Path) -> None:
    """The child holds a pipe open, which ends for its reader when the child does."""
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    child = (
        "import os, signal, sys\n"
        "from proxy.cli.beside import end_with_stdin\n"
        "end_with_stdin()\n"
        "alive = open(sys.argv[1], 'w')\n"
        "print('here', file=alive, flush=True)\n"
        "signal.pause()"
    )
    parent = (
        "import sys\n"
        "from pathlib import Path\n"
        "from proxy.cli.replay_child import result_of_command\n"
        "result_of_command(sys.argv[2:], Path(sys.argv[1]))"
    )
    command = python(parent, tmp_path / "result.json", *python(child, fifo))
    with subprocess.Popen(command) as process, fifo.open() as alive:  # noqa: S603 - our own
        assert alive.readline() == "here\n"
        process.kill()
        assert alive.read() == ""


def test_a_replay_that_somebody_else_broke_off_is_no_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = msgspec.structs.replace(RESULT, run=msgspec.structs.replace(RUN, partial=True))
    monkeypatch.setattr(module, "result_of_command", lambda _command, _path: broken)
    with pytest.raises(click.ClickException, match="was broken off"):
        replay_once("http://gateway", ["--rate", "1"])


def test_a_replay_that_cannot_start_says_why() -> None:
    with pytest.raises(click.ClickException, match="left no result"):
        replay_once("http://127.0.0.1:9", ["--no-such-option"])

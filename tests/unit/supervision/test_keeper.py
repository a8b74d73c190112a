"""The keeper as the process it is: what it runs, what it obeys, and that nothing outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from proxy.supervision import keeper as module
from proxy.supervision.keeper import KILL, LEAVING, TERMINATE

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="promised on Linux only")

# Ends in its time at SIGTERM, and says when that works.
POLITE = "trap 'echo bye; exit 7' TERM; echo $$; while :; do sleep 0.01; done"
DEAF = "trap '' TERM; echo $$; while :; do sleep 0.01; done"
# A child that left the process group and does not hear SIGTERM, as a worker may be.
FAMILY = f'setsid sh -c "{DEAF.replace("$", chr(92) + "$")}" & echo $!; {POLITE}'


@contextmanager
def kept(script: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-I", "-S", module.__file__, "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        bufsize=0,
    )
    try:
        yield process
    finally:
        pipe(process.stdin).close()
        process.wait(10)
        pipe(process.stdout).close()


def pipe(end: IO[bytes] | None) -> IO[bytes]:
    assert end is not None
    return end


def first_lines(process: subprocess.Popen[bytes], count: int = 1) -> list[int]:
    """The process ids that the script tells."""
    return [int(pipe(process.stdout).readline()) for _ in range(count)]


def is_gone(pid: int) -> bool:
    """Ended, and at most waiting for whoever asks how."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def until_gone(*pids: int) -> None:
    while not all(map(is_gone, pids)):
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill $$", 143)]
)
def test_it_ends_with_the_engines_exit_code(script: str, code: int) -> None:
    with kept(script) as process:
        assert process.wait(10) == code


def test_a_command_that_cannot_be_run_is_one_line() -> None:
    ran = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-I", "-S", module.__file__, "no-such-engine"],
        stdin=subprocess.PIPE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (
        127,
        "cannot run no-such-engine: No such file or directory\n",
    )


def test_the_order_to_terminate_is_sigterm_and_leaves_it_its_time() -> None:
    with kept(POLITE) as process:
        first_lines(process)
        pipe(process.stdin).write(TERMINATE)
        assert process.wait(10) == 7
        assert pipe(process.stdout).read() == b"bye\n"


def test_the_order_to_kill_ends_what_does_not_hear() -> None:
    with kept(DEAF) as process:
        (engine,) = first_lines(process)
        pipe(process.stdin).write(TERMINATE + KILL)
        assert process.wait(10) == 137
        assert is_gone(engine)


def test_what_the_first_process_leaves_behind_is_killed() -> None:
    with kept(FAMILY) as process:
        pids = first_lines(process, 3)
        pipe(process.stdin).write(TERMINATE)
        assert process.wait(10) == 7
        assert all(map(is_gone, pids))


def test_when_the_holder_of_the_leash_ends_the_engine_is_asked_to_end() -> None:
    with kept(POLITE) as process:
        first_lines(process)
        pipe(process.stdin).close()
        assert process.wait(10) == 7


def test_and_killed_at_once_when_it_was_leaving() -> None:
    with kept(DEAF) as process:
        first_lines(process)
        pipe(process.stdin).write(LEAVING)
        since = time.monotonic()
        pipe(process.stdin).close()
        assert process.wait(10) == 137
        assert time.monotonic() - since < module._GRACE_S


def test_signals_to_the_keeper_are_not_for_it() -> None:
    with kept(POLITE) as process:
        first_lines(process)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(process.pid, number)
        pipe(process.stdin).write(TERMINATE)
        assert process.wait(10) == 7


def test_the_engine_hears_signals_as_usual() -> None:
    with kept("grep Sig[IB] /proc/self/status") as process:
        told = pipe(process.stdout).read().decode().split()
    # Others stay as whoever started us left them: a shell's background job ignores SIGQUIT.
    ours = (*module._USUAL_AGAIN, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
    judged = sum(1 << (number - 1) for number in ours)
    assert [int(mask, 16) & judged for mask in (told[1], told[3])] == [0, 0]


def test_when_the_keeper_is_killed_the_engine_dies_with_it() -> None:
    with kept(POLITE) as process:
        (engine,) = first_lines(process)
        process.kill()
        process.wait(10)
        until_gone(engine)

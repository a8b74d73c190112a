"""Stands between `sluice up` and the engine, so that neither leaves the other behind.

    python -I -S keeper.py COMMAND...

A process of its own and of the standard library alone, run as a file: it has to be there when
`sluice up` is killed with -9 and can see to nothing any more. Its standard input is the leash, held
by `sluice up`: a byte on it is an order, and its end, which comes however the holder ends, is the
order to end the engine.

    t   SIGTERM to the engine     k   SIGKILL to all of it
    l   the end of the leash will mean: kill at once, as it does after t

The engine is more than one process: vLLM's server starts an engine core and workers. Whatever its
first process leaves behind becomes our child (a subreaper adopts orphans of its descendants, also
those that left the process group), and is killed when the first one is gone. Then we exit with its
exit code, 128 + N if signal N ended it. Should somebody kill us with -9, the kernel kills the first
process (PR_SET_PDEATHSIG), and `sluice up` the rest of the process group.

PR_SET_PDEATHSIG is set between fork and exec in this process, which has one thread: in the
gateway's, which has several, Python code there could meet a lock that nobody will ever open. It
means the death of the thread that forked, too; here that is the only one.

Beyond Linux there are neither of these: there the engine's own children are left to the engine.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

TERMINATE, KILL, LEAVING = b"t", b"k", b"l"

_NO_GRACE = {*TERMINATE, *LEAVING}
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
# From SIGTERM to SIGKILL when nobody is there any more who could say how long it may take.
_GRACE_S = 3.0
_LEASH = 0
_NOT_RUN = 127
# Python ignores them, and what it runs would too.
_USUAL_AGAIN = (signal.SIGPIPE, signal.SIGXFSZ)


class Keeper:
    """One engine, from its start to the end of the last of its processes."""

    def __init__(self, command: list[str]) -> None:
        self._woken = _wake_at_signals()
        self._engine = _start(command)
        self._leash_held = True
        self._kill_at_once = False
        self._kill_at: float | None = None

    def keep(self) -> int:
        """Returns the engine's exit code, when nothing of it is left."""
        while (code := self._reap()) is None:
            self._wait()
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._kill_at = None
                _kill(self._engine)
        while left := _descendants(os.getpid()):
            for pid in left:
                _kill(pid)
            _reap_one(block=True)
        return code

    def _wait(self) -> None:
        """For a child's end, an order, or the moment to kill."""
        left = None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())
        watched = [self._woken, _LEASH] if self._leash_held else [self._woken]
        ready, _, _ = select.select(watched, [], [], left)
        if self._woken in ready:
            os.read(self._woken, 4096)
        if _LEASH in ready:
            self._obey(os.read(_LEASH, 4096))

    def _obey(self, orders: bytes) -> None:
        self._leash_held = bool(orders)
        self._kill_at_once = self._kill_at_once or bool({*orders} & _NO_GRACE)
        if KILL in orders or (not orders and self._kill_at_once):
            _kill(self._engine)
        elif TERMINATE in orders:
            os.kill(self._engine, signal.SIGTERM)
        elif not orders:
            os.kill(self._engine, signal.SIGTERM)
            self._kill_at = time.monotonic() + _GRACE_S

    def _reap(self) -> int | None:
        """The engine's exit code once it has ended. Adopted orphans that ended are let go."""
        while ended := _reap_one():
            pid, status = ended
            if pid == self._engine:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        return None


def _wake_at_signals() -> int:
    """A pipe that gets a byte at each signal. Those that end a process are for `sluice up`, which
    gives its orders in its time; with handlers, not ignored, for the engine would inherit that."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return reading


def _start(command: list[str]) -> int:
    libc = ctypes.CDLL(None)
    is_linux = sys.platform == "linux"
    if is_linux:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    keeper = os.getpid()
    engine = os.fork()
    if engine:
        return engine
    try:
        if is_linux:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != keeper:  # it died before we asked to be told
                os._exit(_NOT_RUN)
        for number in _USUAL_AGAIN:
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, _LEASH)
        os.execvp(command[0], command)  # noqa: S606 - the command that the user names
    except OSError as error:
        os.write(2, f"cannot run {command[0]}: {error.strerror}\n".encode())
    os._exit(_NOT_RUN)


def _reap_one(*, block: bool = False) -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, 0 if block else os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _descendants(root: int) -> list[int]:
    """Every process below `root` that has not ended; none where /proc does not tell."""
    parents = dict(filter(None, map(_parent_of, _process_ids())))
    found: list[int] = []
    level = {root}
    while level:
        level = {pid for pid, parent in parents.items() if parent in level}
        found += level
    return found


def _process_ids() -> list[str]:
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib would take longer than all the rest
    except OSError:
        return []
    return [name for name in names if name.isdecimal()]


def _parent_of(pid: str) -> tuple[int, int] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - as above
            stat = file.read()
    except OSError:
        return None
    # Behind the name, which may hold anything, in brackets: state and parent.
    return int(pid), int(stat.rpartition(b")")[2].split()[1])


if __name__ == "__main__":
    sys.exit(Keeper(sys.argv[1:]).keep())

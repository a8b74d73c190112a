"""Watches logs that are being written, as `tail -F` does, and says when an OOM comes.

A file that is renamed away is read to its end, and then the new one of that name from its
beginning; one that is cut short is read from its beginning; one that is not there is waited for.
Each file is judged on its own.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from proxy.cli.doctor_sources import STDIN
from proxy.vllm.doctor.diagnosis import diagnose
from proxy.vllm.doctor.intake import Intake

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from proxy.vllm.doctor.evidence import Diagnosis

_PERIOD_S = 0.25
_BLOCK_BYTES = 1 << 20
# An engine that dies says so in many lines: they are waited for, but not for ever.
_QUIET_S, _PATIENCE_S = 1.0, 5.0


class Tail(Protocol):
    """`read` gives what is new, b"" for nothing, None for the end; `renewed` is true once after a
    read that began the file anew."""

    name: str
    renewed: bool

    def read(self) -> bytes | None: ...


class FileTail:
    """A path, through rotation and truncation."""

    def __init__(self, path: str) -> None:
        self.name = path
        self.renewed = False
        self._path = Path(path)
        self._file = -1
        self._position = 0

    def read(self) -> bytes:
        self.renewed = False
        if self._file < 0 and not self._open():
            return b""
        block = os.read(self._file, _BLOCK_BYTES)
        if block or not self._is_another():
            self._position += len(block)
            return block
        self.close()
        self.renewed = True
        return self.read_new() if self._open() else b""

    def read_new(self) -> bytes:
        block = os.read(self._file, _BLOCK_BYTES)
        self._position = len(block)
        return block

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _open(self) -> bool:
        try:
            self._file = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        if stat.S_ISDIR(os.fstat(self._file).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.name)
        self._position = 0
        return True

    def _is_another(self) -> bool:
        """A moment between renaming and creating is not taken for the end."""
        mine = os.fstat(self._file)
        try:
            named = self._path.stat()
        except OSError:
            return False
        renamed = (named.st_ino, named.st_dev) != (mine.st_ino, mine.st_dev)
        return renamed or mine.st_size < self._position


class PipeTail:
    """Standard input, which has an end."""

    name = "stdin"
    renewed = False

    def read(self) -> bytes | None:
        ready, _, _ = select.select([sys.stdin], [], [], 0)
        if not ready:
            return b""
        return os.read(sys.stdin.fileno(), _BLOCK_BYTES) or None


@dataclass(slots=True)
class Watch:
    """One file, and what was last said of it. `now` are seconds of any clock."""

    tail: Tail
    intake: Intake
    ended: bool = False
    caught_up: bool = False
    problem: str | None = None  # why nothing of it can be read
    hungry: bool = False  # there may be more to read already
    oom: bool = False
    _unread_since_s: float | None = None
    _last_s: float = 0.0
    _reported: tuple[object, ...] = ()

    def look(self, now: float) -> Diagnosis | None:
        """Reads what is new; an answer where there is an OOM that was not reported yet."""
        block = self.tail.read()
        if self.tail.renewed:
            self.intake.end()
            self.intake.begin(self.tail.name)
        if block:
            self.intake.feed(block)
            self._unread_since_s = now if self._unread_since_s is None else self._unread_since_s
            self._last_s = now
        self.ended = block is None
        self.hungry = bool(block)
        self.caught_up = self.caught_up or not block
        return self._judge() if self._is_time(now) else None

    def _is_time(self, now: float) -> bool:
        if self._unread_since_s is None:
            return False
        if not self.caught_up:
            return self.ended
        quiet = now - self._last_s >= _QUIET_S
        return self.ended or quiet or now - self._unread_since_s > _PATIENCE_S

    def _judge(self) -> Diagnosis | None:
        self._unread_since_s = None
        if self.ended:
            self.intake.end()
        else:
            self.problem = self.intake.look()
        diagnosis = diagnose(self.intake.findings())
        self.oom = self.oom or diagnosis.oom is True
        seen = (diagnosis.phase, *((line.file, line.line) for line in diagnosis.evidence[:1]))
        if not diagnosis.oom or seen == self._reported:
            return None
        self._reported = seen
        return diagnosis


def follow(
    sources: Sequence[str],
    report: Callable[[Diagnosis], None],
    say: Callable[[str], None],
) -> bool:
    """Until Ctrl-C, SIGTERM, or the end of standard input. Whether there was an OOM."""
    watches = [Watch(PipeTail() if s == STDIN else FileTail(s), Intake()) for s in sources]
    for watch in watches:
        watch.intake.begin(watch.tail.name)
    before = signal.signal(signal.SIGTERM, _interrupt)
    say(f"watching {', '.join(watch.tail.name for watch in watches)}; Ctrl-C ends it")
    try:
        while not all(watch.ended for watch in watches):
            _round(watches, report, say)
    except KeyboardInterrupt:
        say("stopped")
    finally:
        signal.signal(signal.SIGTERM, before)
    return any(watch.oom for watch in watches)


def _round(
    watches: Sequence[Watch], report: Callable[[Diagnosis], None], say: Callable[[str], None]
) -> None:
    for watch in watches:
        known = watch.problem
        if not watch.ended and (diagnosis := watch.look(time.monotonic())):
            report(diagnosis)
        if watch.problem and watch.problem != known:
            say(f"{watch.tail.name}: {watch.problem}")
    if not any(watch.hungry for watch in watches):
        time.sleep(_PERIOD_S)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt

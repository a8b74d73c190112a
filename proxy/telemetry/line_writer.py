"""Writes lines to a file or stream without ever making the event loop wait for it.

Lines go into a bounded buffer; one thread writes it out every quarter of a second, and at once
when it fills. A disk or a reader that cannot keep up costs lines, never requests: they are counted,
and a warning says how many.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger(__name__)

FLUSH_INTERVAL_S: Final = 0.25
# A quarter of a second at 20,000 lines a second is 5,000; six times that is about 10 MB.
MAX_BUFFERED_LINES: Final = 32_768
# Enough that the thread is not woken for every line, few enough that the buffer stays small.
_WAKE_AT_LINES: Final = 4_096
_LINES_A_WRITE: Final = 1_024
# What the system writes to a pipe in one piece (POSIX: at least 512; Linux: 4096).
_ONE_PIECE_BYTES: Final = select.PIPE_BUF


class LineSink(Protocol):
    """Where whole lines go, line end included. Neither blocks nor raises."""

    def write(self, line: bytes) -> None: ...


class LineWriter:
    """A sink for whole lines. `write` never blocks, from whichever thread it is called.

    A file may be rotated by copying and truncating it; it is not reopened.
    """

    def __init__(
        self,
        descriptor: int,
        name: str,
        *,
        owned: bool,
        shared: bool = False,
        max_lines: int = MAX_BUFFERED_LINES,
    ) -> None:
        """`name` is what warnings call it. An `owned` descriptor is closed with the writer. Where
        it is `shared` with other processes, none writes into the middle of another's line, unless
        that is longer than 4 KiB."""
        self._descriptor = descriptor
        self._name = name
        self._owned = owned
        self._shared = shared
        self._max_lines = max_lines
        self._lines: deque[bytes] = deque()
        self._wake = threading.Event()
        self._settled = threading.Condition()
        self._in_hand = 0
        self._done = 0
        self._closing = False
        self._failing = False
        self._torn = False
        self._overflowed = 0
        self._lost = 0
        self._reported = 0
        self._thread = threading.Thread(target=self._run, name=f"log-{name}", daemon=True)
        self._thread.start()

    @classmethod
    def to_file(cls, path: Path) -> LineWriter:
        """Appends to the file, made for owner and group only. Raises OSError when it cannot."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return cls(os.open(path, flags, 0o640), path.name, owned=True)

    @property
    def dropped(self) -> int:
        """Lines that were not written: the buffer was full, or the write failed."""
        return self._overflowed + self._lost

    def write(self, line: bytes) -> None:
        """Takes one line with its line end."""
        buffered = len(self._lines)
        if buffered >= self._max_lines or self._closing:
            self._overflowed += 1
            return
        self._lines.append(line)
        if buffered == _WAKE_AT_LINES:
            self._wake.set()

    def flush(self, timeout_s: float = 1.0) -> bool:
        """Waits, at most `timeout_s`, until all that was taken is written. Blocks: not for the
        event loop while it serves."""
        with self._settled:
            taken = self._done + self._in_hand + len(self._lines)
            self._wake.set()
            return self._settled.wait_for(lambda: self._done >= taken, timeout_s)

    def close(self, timeout_s: float = 2.0) -> None:
        """Writes what is left, for at most `timeout_s`, and takes no more. Safe to repeat."""
        self._closing = True
        self._wake.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            _log.warning("%s takes no more lines: %d are lost", self._name, len(self._lines))

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(FLUSH_INTERVAL_S)
            self._wake.clear()
            self._write_out()
        self._write_out()
        if self._owned:
            os.close(self._descriptor)

    def _write_out(self) -> None:
        while batch := self._next_batch():
            self._write_batch(batch)
            with self._settled:
                self._in_hand = 0
                self._done += len(batch)
                self._settled.notify_all()
        self._report_drops()

    def _next_batch(self) -> list[bytes]:
        with self._settled:
            self._in_hand = min(len(self._lines), _LINES_A_WRITE)
            if self._shared:
                self._in_hand = self._lines_in_one_piece()
            return [self._lines.popleft() for _ in range(self._in_hand)]

    def _lines_in_one_piece(self) -> int:
        """How many of those in hand; at least one if there is any."""
        room = _ONE_PIECE_BYTES
        for number in range(self._in_hand):
            room -= len(self._lines[number])
            if room < 0:
                return max(number, 1)
        return self._in_hand

    def _write_batch(self, batch: list[bytes]) -> None:
        # After a failure in the middle of a line, the next line must not continue it.
        rest = memoryview((b"\n" if self._torn else b"") + b"".join(batch))
        try:
            while rest:
                rest = rest[self._write_some(rest) :]
        except OSError as error:
            self._torn = True
            self._lost += len(batch)
            self._report_failure(error)
        else:
            self._torn = self._failing = False

    def _write_some(self, data: memoryview) -> int:
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:  # somebody who shares the descriptor made it non-blocking
            select.select([], [self._descriptor], [], FLUSH_INTERVAL_S)
            return 0

    def _report_failure(self, error: OSError) -> None:
        """Once for each time that it breaks, not once a line."""
        if not self._failing:
            self._failing = True
            _log.warning("cannot write to %s: %s; lines are lost", self._name, error.strerror)

    def _report_drops(self) -> None:
        if self._overflowed > self._reported:
            self._reported = self._overflowed
            _log.warning("%s cannot keep up: %d lines dropped so far", self._name, self._overflowed)

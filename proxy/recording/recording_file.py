"""The file that a recording is written to, a line at a time."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.recording.table import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_TAIL_BYTES = 1 << 16


class ForeignFileError(Exception):
    """The file holds something else, or somebody else writes to it; the message says which."""


class RecordingFile:
    """Each row is in the kernel's hands when `write` returns: a crash of ours loses none."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, rows: Iterable[str]) -> None:
        """Raises OSError, for a full disk say."""
        block = memoryview("".join(f"{row}\n" for row in rows).encode())
        while block:
            block = block[os.write(self._descriptor, block) :]


@contextmanager
def open_recording(path: str) -> Iterator[RecordingFile]:
    """A new file with its header, or an earlier recording of ours, which is continued; `-` is
    standard output. A last line that a crash cut is taken away. Raises ForeignFileError, OSError.
    """
    if path == "-":
        file = RecordingFile(1)
        file.write([HEADER])
        yield file
        return
    descriptor = os.open(Path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _claim(descriptor)
        _continue(descriptor)
        yield RecordingFile(descriptor)
    finally:
        os.close(descriptor)


def _claim(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ForeignFileError("another recording is being written to it") from None


def _continue(descriptor: int) -> None:
    header = f"{HEADER}\n".encode()
    size = os.fstat(descriptor).st_size
    begin = os.pread(descriptor, len(header), 0)
    if begin != header[: len(begin)] or (len(begin) < len(header) and size > len(begin)):
        raise ForeignFileError("it is not a recording with the columns of this version")
    if size < len(header):  # new, or cut in its header
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, header, 0)
    else:
        _take_cut_line_away(descriptor, size)
    os.lseek(descriptor, 0, os.SEEK_END)


def _take_cut_line_away(descriptor: int, size: int) -> None:
    begin = max(0, size - _TAIL_BYTES)
    end = os.pread(descriptor, size - begin, begin).rfind(b"\n") + 1
    if begin + end < size:
        os.ftruncate(descriptor, begin + end)

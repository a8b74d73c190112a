"""The lines of a trace file, plain or packed with gzip, one at a time.

A file that is being written, or was copied while it was, ends in the middle of a line: that is
normal, and the one place where a line that cannot be read is left out.
"""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, cast

from proxy.replay.traces.problem import BadLineError, BadTraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from io import BufferedReader
    from pathlib import Path
    from typing import IO, TypeVar

    Parsed = TypeVar("Parsed")

_GZIP = b"\x1f\x8b"
_LONGEST_LINE = 16 * 1024 * 1024


class TraceLines:
    """Iterates (number, text) from line 1 on, without line ends, blank lines left out.

    `cut_off` says afterwards that the file ended in the middle of something. Raises BadTraceError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut_off = False
        self._unfinished = False

    def __iter__(self) -> Generator[tuple[int, str]]:
        number = 0
        try:
            with self.path.open("rb") as raw, _unpacked(raw) as file:
                while line := file.readline(_LONGEST_LINE):
                    number += 1
                    self._unfinished = not line.endswith(b"\n")
                    if text := self._text(line, number):
                        yield number, text
        except EOFError:
            self.cut_off = True
        except (OSError, zlib.error) as error:
            raise BadTraceError(f"{self.path}: {_said(error)}") from error

    def read(self, number: int, text: str, parse: Callable[[str], Parsed]) -> Parsed | None:
        """The parsed line; None for a last line that is cut off. Raises BadTraceError."""
        try:
            return parse(text)
        except BadLineError as error:
            if self._unfinished:
                self.cut_off = True
                return None
            raise BadTraceError(f"{self.path}, line {number}: {error}") from None

    def _text(self, line: bytes, number: int) -> str:
        if len(line) == _LONGEST_LINE:
            raise BadTraceError(f"{self.path}, line {number}: longer than {_LONGEST_LINE} bytes")
        text = line.decode("utf-8-sig" if number == 1 else "utf-8", "replace")
        return text.strip()


def _unpacked(raw: BufferedReader) -> IO[bytes]:
    packed = raw.peek(len(_GZIP))[: len(_GZIP)] == _GZIP
    return cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if packed else raw


def _said(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__

"""A file's bytes as UTF-8 blocks and lines, whatever wrote them."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_UTF_8_BOM = b"\xef\xbb\xbf"
# PowerShell's `>` writes UTF-16.
_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# No line that anybody reads is longer; the rest of such a line is left out.
LONGEST_LINE = 1 << 20


class Utf8:
    """Turns UTF-16 into UTF-8 and takes the mark at the beginning away; all else stays as it is."""

    def __init__(self) -> None:
        self._decoder: codecs.IncrementalDecoder | None = None
        self._begun = False

    def feed(self, block: bytes) -> bytes:
        """The first block must be long enough to see the encoding by, or the whole file."""
        if not self._begun and block:
            self._begun = True
            encoding = _UTF_16.get(block[:2]) or _utf_16_without_mark(block)
            if encoding:
                self._decoder = codecs.getincrementaldecoder(encoding)("replace")
            block = block.removeprefix(_UTF_8_BOM)
        if self._decoder is None:
            return block
        return self._decoder.decode(block).removeprefix("\ufeff").encode()


def _utf_16_without_mark(block: bytes) -> str | None:
    """Latin letters have a zero in every second byte."""
    head = block[:512]
    pairs = len(head) // 2
    if pairs < 2:
        return None
    if head[1::2].count(0) > pairs * 0.8 and 0 not in head[::2]:
        return "utf-16-le"
    return "utf-16-be" if head[::2].count(0) > pairs * 0.8 and 0 not in head[1::2] else None


class Lines:
    """Cuts blocks into lines; LF and CRLF end one. `rest` is what has no end yet."""

    def __init__(self) -> None:
        self.rest = b""
        self._too_long = False

    def feed(self, block: bytes) -> Iterator[str]:
        """Whole lines without their ends."""
        *whole, self.rest = (self.rest + block).split(b"\n")
        for line in whole:
            if not self._too_long:
                yield line.removesuffix(b"\r").decode(errors="replace")
            else:
                yield ""
            self._too_long = False
        if len(self.rest) > LONGEST_LINE:
            self.rest, self._too_long = b"", True

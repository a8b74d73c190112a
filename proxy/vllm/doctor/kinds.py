"""What kind of evidence a file is, told by how it begins and never by its name."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TYPE_CHECKING

from proxy.vllm.endless_numbers import without_endless_numbers
from proxy.vllm.memory_curve.columns import cells_of, guess, header_of

if TYPE_CHECKING:
    from collections.abc import Sequence

# So much of a file is looked at.
HEAD_BYTES = 1 << 16
_MOST_LINES = 200

_PAGE_LINE = re.compile(r"# (?:HELP|TYPE) \w|(?:vllm:|sluice_|process_|python_)\w+(?:\{.*\})? \S+$")
_TABLE = re.compile(r"\| NVIDIA-SMI \d|\d+MiB */ *\d+MiB")
_PACKED = {
    b"\x28\xb5\x2f\xfd": "packed by zstd: `zstd -dc FILE | sluice doctor -`",
    b"\xfd7zXZ": "packed by xz: `xz -dc FILE | sluice doctor -`",
    b"BZh": "packed by bzip2: `bzip2 -dc FILE | sluice doctor -`",
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"\x1f\x8b": "packed by gzip: `zcat FILE | sluice doctor -`",
}


class Kind(Enum):
    """`TEXT` may be an engine's log, the kernel's, or both in one journal."""

    TEXT = auto()
    CURVE = auto()
    PAGE = auto()
    TABLE = auto()  # what nvidia-smi prints for people
    BINARY = auto()
    EMPTY = auto()


def kind_of(head: bytes) -> Kind:
    """`head` is how the file begins, unpacked, in UTF-8; all of it, or up to HEAD_BYTES."""
    if not head.strip():
        return Kind.EMPTY
    if _is_binary(head):
        return Kind.BINARY
    text = without_endless_numbers(head).decode(errors="replace")
    lines = [line.strip() for line in text.splitlines()[:_MOST_LINES]]
    lines = [line for line in lines if line]
    if any(header_of(line) for line in lines) or _is_curve(lines):
        return Kind.CURVE
    if sum(_PAGE_LINE.match(line) is not None for line in lines) * 2 > len(lines):
        return Kind.PAGE
    return Kind.TABLE if any(_TABLE.search(line) for line in lines[:30]) else Kind.TEXT


def packed_by(head: bytes) -> str | None:
    """What to do with a file that is packed in a way that is not read here."""
    return next((hint for magic, hint in _PACKED.items() if head.startswith(magic)), None)


def _is_binary(head: bytes) -> bool:
    """A log may hold a stray control character, or a hole of zeros where a disk lost power."""
    text = head.replace(b"\0", b"")
    control = sum(text.count(code) for code in range(32) if code not in (8, 9, 10, 12, 13, 27))
    return not text or control * 50 > len(text)


def _is_curve(lines: Sequence[str]) -> bool:
    """Without a header: nearly all lines are rows, and the columns can be told."""
    rows = [cells_of(line, ",") for line in lines]
    width = len(rows[0])
    alike = [row for row in rows if len(row) == width]
    return len(alike) * 10 >= len(rows) * 9 and guess(alike) is not None

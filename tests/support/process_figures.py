"""What the kernel says of another process: memory and processor time, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

MIB = 1024 * 1024


def resident_bytes(pid: int) -> int:
    """Memory that it has now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_resident_bytes(pid: int) -> int:
    """The most memory that it ever had, since forget_peak()."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise LookupError("no VmHWM")


def forget_peak(pid: int) -> None:
    """Lets the peak begin anew at what it has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def processor_seconds(pid: int) -> float:
    """Time that it has run on a processor, in user and kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """The processes that it has started and that are there, the oldest first."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []

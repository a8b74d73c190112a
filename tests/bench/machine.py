"""The machine at hand: which core does what, what a process tree has used, how to describe it."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cores:
    """`proxy` is for the process under test alone; load and fake engine share the other one."""

    proxy: int
    load: int


def choose_cores() -> Cores:
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise SystemExit("two cores are needed: one for the proxy, one for load and fake engine")
    return Cores(proxy=usable[0], load=usable[1])


def raise_open_files() -> int:
    """Lets this process and its children open as many files as they may; returns how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(hard, 32_768), max(hard, 32_768)))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


@contextlib.contextmanager
def first_in_line() -> Iterator[None]:
    """Runs this thread before others on its core, if we may; what it starts runs as usual.

    For a probe that shares its core with load: what it waits for is then the proxy, not the load.
    """
    before = os.sched_getscheduler(0)
    with contextlib.suppress(OSError):
        at_once = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, at_once, os.sched_param(1))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, before, os.sched_param(0))


def ticks_of_group(stat: str, group: int) -> int:
    """Clock ticks in user and system mode, from the text of a /proc/PID/stat.

    0 when the process is not of this group. What has ended in it counts where it was waited for.
    """
    fields = stat.rpartition(")")[2].split()  # a command's name may hold blanks and brackets
    if int(fields[2]) != group:
        return 0
    return sum(int(ticks) for ticks in fields[11:15])


def cpu_seconds(group: int) -> float:
    """User and system time of a process group, of what has ended in it too; 0 for group 0."""
    if group == 0:  # where nothing runs in between; the kernel's own threads have that number
        return 0.0
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            total += ticks_of_group(stat.read_text(), group)
    return total / _TICKS_PER_S


def pss_in(rollup: str) -> int:
    """Bytes, from the text of a /proc/PID/smaps_rollup: shared pages in equal parts."""
    (line,) = [line for line in rollup.splitlines() if line.startswith("Pss:")]
    return int(line.split()[1]) * 1024


def pss_bytes(group: int) -> int:
    """Resident memory of a process group. The kernel's socket buffers are not in it."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getpgid(int(process.name)) == group:
                total += pss_in((process / "smaps_rollup").read_text())
    return total


def describe() -> str:
    """One line: processor, cores, memory, kernel."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    processor = names[0] if names else platform.machine()
    kernel = f"{platform.system()} {platform.release()}"
    return f"{processor}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, {kernel}"

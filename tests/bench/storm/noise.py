"""What of a core goes to others while something is measured: their work, or another machine's."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.machine import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_IDLE, _IOWAIT, _GUEST = 3, 4, 8


def busy_ticks(stat: str, core: int) -> int:
    """From the text of /proc/stat: all but idle time, what a hypervisor took included."""
    (line,) = [line for line in stat.splitlines() if line.startswith(f"cpu{core} ")]
    ticks = [int(field) for field in line.split()[1:]]
    # A guest's time is in user time already.
    return sum(ticks[:_GUEST]) - ticks[_IDLE] - ticks[_IOWAIT]


class CoreNoise:
    """Begins when it is made. `groups`: the process groups whose work on the core is meant."""

    def __init__(self, core: int, groups: Iterable[int]) -> None:
        self._core, self._groups = core, tuple(groups)
        self._began_at, self._before_s = time.monotonic(), self._others_s()

    def share(self) -> float:
        """Of the core, since the beginning; not below zero."""
        took_s = time.monotonic() - self._began_at
        return max(0.0, (self._others_s() - self._before_s) / took_s)

    def _others_s(self) -> float:
        busy_s = busy_ticks(Path("/proc/stat").read_text(), self._core) / _TICKS_PER_S
        return busy_s - sum(cpu_seconds(group) for group in self._groups)

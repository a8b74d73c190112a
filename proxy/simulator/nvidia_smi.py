"""The simulated card as `nvidia-smi --query-gpu=... --format=csv` would show it, once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from proxy.simulator.gpu_memory import MIB

if TYPE_CHECKING:
    from proxy.simulator.engine import EngineSnapshot
    from proxy.simulator.gpu_memory import GpuMemory

_NAME = "Simulated GPU"
_HEADER = "timestamp, index, name, memory.used [MiB], memory.total [MiB], utilization.gpu [%]"
_EMPTY_MIB = 4  # what a driver shows of a card that nobody uses


def nvidia_smi_csv(memory: GpuMemory, engine: EngineSnapshot, wall_s: float) -> str:
    """A header and a row. A dead engine's process is gone, and its memory with it."""
    used = _EMPTY_MIB if engine.dead else engine.memory_used_bytes // MIB
    busy = engine.running > 0 and not engine.stalled
    stamp = time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(wall_s))
    row = (
        f"{stamp}.{int(wall_s % 1 * 1000):03d}, 0, {_NAME}, {used} MiB, "
        f"{memory.total_bytes // MIB} MiB, {100 if busy else 0} %"
    )
    return f"{_HEADER}\n{row}\n"

"""The card of the simulated engine (`sluice sim`), which tells its memory on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.recording.readings import GpuReading
from proxy.vllm.memory_curve.reader import read_memory_curve
from proxy.vllm.probe import NoAnswer

if TYPE_CHECKING:
    from proxy.vllm.probe import Probe

GPU_PATH = "/sim/gpu"
_LONGEST_PAGE = 1 << 16


class SimulatedGpus:
    """`probe` asks the simulated engine; while it is away, its card tells nothing."""

    def __init__(self, probe: Probe, timeout_s: float) -> None:
        self._probe = probe
        self._timeout_s = timeout_s

    async def read(self) -> tuple[GpuReading, ...]:
        answer = await self._probe.get(GPU_PATH, self._timeout_s, _LONGEST_PAGE)
        if isinstance(answer, NoAnswer) or answer.status != 200:
            return ()
        page = (answer.body or b"").decode(errors="replace")
        return tuple(
            GpuReading(each.gpu, each.name, each.used, each.total, each.utilization)
            for each in read_memory_curve(page.splitlines())
        )


class NoGpus:
    """There is no card to be read."""

    async def read(self) -> tuple[GpuReading, ...]:
        return ()

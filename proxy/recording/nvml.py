"""The cards of this machine, read as nvidia-smi reads them: through NVML."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from proxy.recording.readings import GpuReading

if TYPE_CHECKING:
    from types import ModuleType

_INSTALL = "pip install 'vllm-sluice[tools]'"


class NoGpuError(Exception):
    """No card can be read here; the message says why."""


class NvmlGpus:
    """All cards that NVML shows. `close` when done."""

    def __init__(self, nvml: ModuleType) -> None:
        self._nvml = nvml
        self._handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(_count(nvml))]

    async def read(self) -> tuple[GpuReading, ...]:
        """On a thread: a driver that is busy with a dying process may take its time."""
        return await asyncio.to_thread(self._read)

    def close(self) -> None:
        self._nvml.nvmlShutdown()

    def _read(self) -> tuple[GpuReading, ...]:
        return tuple(self._card(index, handle) for index, handle in enumerate(self._handles))

    def _card(self, index: int, handle: Any) -> GpuReading:  # noqa: ANN401 - NVML's own
        nvml = self._nvml
        memory = self._asked(nvml.nvmlDeviceGetMemoryInfo, handle)
        load = self._asked(nvml.nvmlDeviceGetUtilizationRates, handle)
        name = self._asked(nvml.nvmlDeviceGetName, handle)
        return GpuReading(
            index,
            name.decode() if isinstance(name, bytes) else name,
            None if memory is None else int(memory.used),
            None if memory is None else int(memory.total),
            None if load is None else load.gpu / 100,
        )

    def _asked(self, question: Any, handle: Any) -> Any:  # noqa: ANN401 - NVML's own
        """None for what a card does not support, and for one that has fallen off the bus."""
        try:
            return question(handle)
        except self._nvml.NVMLError:
            return None


def _count(nvml: ModuleType) -> int:
    return int(nvml.nvmlDeviceGetCount())


def open_nvml() -> NvmlGpus:
    """Raises NoGpuError."""
    try:
        import pynvml  # noqa: PLC0415 - the gateway's image does not have it
    except ImportError:
        raise NoGpuError(f"nvidia-ml-py is not installed ({_INSTALL})") from None
    return started(pynvml)


def started(nvml: ModuleType) -> NvmlGpus:
    """Raises NoGpuError where there is no driver, or no card."""
    try:
        nvml.nvmlInit()
        gpus = NvmlGpus(nvml)
        if not _count(nvml):
            raise NoGpuError("NVML shows no card")
    except nvml.NVMLError as error:
        raise NoGpuError(f"NVML says: {error}") from None
    return gpus

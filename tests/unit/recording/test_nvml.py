"""NVML is played: these machines have no card."""

from __future__ import annotations

import asyncio
from types import ModuleType, SimpleNamespace

import pytest

from proxy.recording.nvml import NoGpuError, open_nvml, started
from proxy.recording.readings import GpuReading


class FakeNvml(ModuleType):
    """Two cards, of which the second tells only its memory."""

    class NVMLError(Exception):
        pass

    def __init__(self, cards: int = 2, *, driver: bool = True) -> None:
        super().__init__("pynvml")
        self.cards = cards
        self.driver = driver
        self.closed = False

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's names
        if not self.driver:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.closed = True

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self.cards

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(used=1000 + handle, total=2000)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:  # noqa: N802
        if handle:
            raise self.NVMLError("Not Supported")
        return SimpleNamespace(gpu=87)

    def nvmlDeviceGetName(self, handle: int) -> bytes | str:  # noqa: N802
        if handle:
            raise self.NVMLError("GPU is lost")
        return b"NVIDIA L4"


def test_every_card_is_read_and_what_it_does_not_tell_is_none() -> None:
    gpus = started(FakeNvml())
    assert asyncio.run(gpus.read()) == (
        GpuReading(0, "NVIDIA L4", 1000, 2000, 0.87),
        GpuReading(1, None, 1001, 2000, None),
    )


def test_it_is_closed() -> None:
    nvml = FakeNvml()
    started(nvml).close()
    assert nvml.closed


@pytest.mark.parametrize(
    ("nvml", "words"),
    [(FakeNvml(driver=False), "Driver Not Loaded"), (FakeNvml(cards=0), "shows no card")],
)
def test_why_there_is_no_card_is_said(nvml: FakeNvml, words: str) -> None:
    with pytest.raises(NoGpuError, match=words):
        started(nvml)


def test_without_the_bindings_it_is_said_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    with pytest.raises(NoGpuError, match=r"pip install 'vllm-sluice\[tools\]'"):
        open_nvml()

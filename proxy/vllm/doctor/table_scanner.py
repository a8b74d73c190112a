"""nvidia-smi's table for people: how full each card was at that moment, and whose memory it was."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from proxy.vllm.doctor.curve_scanner import MemoryScanner
from proxy.vllm.doctor.sizes import readable
from proxy.vllm.memory_curve.smi_table import SmiProcess, SmiTableReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.vllm.doctor.curve_scanner import Card
    from proxy.vllm.memory_curve.reader import MemorySample

_LONGEST = 16 << 20
_MOST_NAMED = 4
_LONGEST_NAME = 60


class TableScanner(MemoryScanner):
    """One file. What else is in it, others read."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._reader = SmiTableReader()
        self._bytes = 0

    def feed(self, block: bytes) -> None:
        """The table stands above a log that may be long."""
        if self._bytes < _LONGEST:
            super().feed(block)
        self._bytes += len(block)

    def cards(self) -> list[Card]:
        told = super().cards()
        return [replace(card, note=card.note + self._holders(card.curve.index)) for card in told]

    def _read(self, line: str) -> Iterable[MemorySample]:
        return self._reader.feed(line)

    def _rest(self, line: str) -> Iterable[MemorySample]:
        return self._reader.feed(line)

    def _holders(self, gpu: int) -> str:
        mine = [process for process in self._reader.processes if process.gpu == gpu]
        mine.sort(key=lambda process: -process.used)
        named = [_in_words(process) for process in mine[:_MOST_NAMED]]
        if len(mine) > _MOST_NAMED:
            named.append(f"{len(mine) - _MOST_NAMED} more")
        return f"; held by {', '.join(named)}" if named else ""


def _in_words(process: SmiProcess) -> str:
    name = process.name.rsplit("/", 1)[-1][:_LONGEST_NAME]
    return f"{name} (PID {process.pid}, {readable(process.used)})"

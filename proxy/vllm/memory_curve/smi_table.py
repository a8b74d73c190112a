"""The table that `nvidia-smi` prints for people, pasted into a file: one sample of each card.

    |   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |
    | N/A   34C    P0             114W / 700W |   76543MiB /  81559MiB |     97%      Default |
    ...
    |    0   N/A  N/A      4711      C   VLLM::EngineCore                            76520MiB |

Drivers have changed the widths and added columns, not these rows. Several tables, as `watch` or
`-l` write them, are several samples.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.vllm.endless_numbers import text_without_endless_numbers
from proxy.vllm.memory_curve.cells import MIB, moment_of
from proxy.vllm.memory_curve.reader import MemorySample

if TYPE_CHECKING:
    from collections.abc import Iterator

_CARD = re.compile(
    r"\|\s{1,6}(\d{1,3})\s{1,4}(\S.{0,60}?)\s{1,40}(?:On|Off|N/A|TCC|WDDM|MCDM)\s{1,8}\|"
    r"\s{1,8}[0-9A-Fa-f]{4,8}:"
)
_MEMORY = re.compile(r"(\d{1,9})MiB\s{0,4}/\s{0,8}(\d{1,9})MiB\s{0,4}\|(?:\s{0,8}(\d{1,3})%)?")
_PROCESS = re.compile(
    r"\|\s{1,6}(\d{1,3})\s{1,20}(?:(?:N/A|\d{1,3})\s{1,20}){0,2}(\d{1,10})\s{1,8}(?:M\+)?[CG]"
    r"(?:\+G)?\s{1,8}(\S.{0,200}?)\s{1,80}(\d{1,9})MiB\s{0,4}\|"
)
_PERIOD_S = 1.0


@dataclass(frozen=True, slots=True)
class SmiProcess:
    """Who holds how much of a card, in bytes. Some drivers do not tell it."""

    gpu: int
    pid: int
    name: str
    used: int


class SmiTableReader:
    """Takes lines without their ends. `processes` are those of the last table."""

    def __init__(self) -> None:
        self.processes: list[SmiProcess] = []
        self._line = 0
        self._at_s = 0.0
        self._card: tuple[int, str] | None = None
        self._seen: set[int] = set()

    def feed(self, line: str) -> Iterator[MemorySample]:
        self._line += 1
        line = text_without_endless_numbers(line)
        moment = moment_of(line)
        if moment is not None:
            self._at_s = max(moment, self._at_s)
        elif card := _CARD.search(line):
            self._begin(int(card[1]), card[2])
        elif (memory := _MEMORY.search(line)) and self._card:
            yield self._sample(line, memory)
        elif process := _PROCESS.search(line):
            gpu, pid, name, used = process.groups()
            self.processes.append(SmiProcess(int(gpu), int(pid), name, int(used) * MIB))

    def _begin(self, gpu: int, name: str) -> None:
        if gpu in self._seen:  # the next table
            self._seen.clear()
            self.processes.clear()
            self._at_s += _PERIOD_S
        self._seen.add(gpu)
        self._card = gpu, name

    def _sample(self, line: str, memory: re.Match[str]) -> MemorySample:
        gpu, name = self._card or (0, "")
        self._card = None  # MIG slices tell theirs in rows of their own
        return MemorySample(
            line=self._line,
            text=line.strip(),
            at_s=self._at_s,
            gpu=gpu,
            name=name,
            used=int(memory[1]) * MIB,
            total=int(memory[2]) * MIB,
            utilization=int(memory[3]) / 100 if memory[3] else None,
        )

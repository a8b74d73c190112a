"""What a process has of memory, from outside, second after second."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.soak.slope import slope

if TYPE_CHECKING:
    from tests.soak.slope import Reading, Slope

# The least that anything costs that is kept for each request: the pointer to it.
LEAST_BYTES_A_REQUEST = 8
# A block is the least that anything costs that is kept. One in a thousand requests may leave one,
# for histories that are still filling up.
LEAST_BLOCKS_A_REQUEST = 0.001
MIB = 1024 * 1024


@dataclass(frozen=True)
class MemoryNow:
    rss: int
    uss: int


def read_memory(rollup: str) -> MemoryNow:
    """From the text of /proc/PID/smaps_rollup. USS is what nobody else shares."""
    sizes = {
        name: int(rest.split()[0]) * 1024
        for name, _, rest in (line.partition(":") for line in rollup.splitlines())
        if rest.endswith(" kB")
    }
    return MemoryNow(sizes["Rss"], sizes["Private_Clean"] + sizes["Private_Dirty"])


def memory_of(pid: int) -> MemoryNow:
    return read_memory(Path(f"/proc/{pid}/smaps_rollup").read_text())


@dataclass(frozen=True)
class Judgement:
    """`a_request`: its slope by the number of requests; `floor` in the same unit, what is taken for
    nothing. `is_noise` None: too short to say."""

    name: str
    slope: Slope | None
    a_request: float
    floor: float
    is_noise: bool | None


@dataclass
class MemoryCurve:
    """Readings of a run. Times from its beginning, in seconds."""

    rss: list[Reading] = field(default_factory=list)
    uss: list[Reading] = field(default_factory=list)
    blocks: list[Reading] = field(default_factory=list)

    def add(self, at_s: float, now: MemoryNow, blocks: int) -> None:
        self.rss.append((at_s, now.rss))
        self.uss.append((at_s, now.uss))
        self.blocks.append((at_s, blocks))

    def judge(self, requests_per_s: float) -> list[Judgement]:
        """The rule: it is a leak when the lower end of the slope's 95 % interval is above the least
        that something costs which is kept for every request."""
        return [
            _judge("RSS", self.rss, LEAST_BYTES_A_REQUEST, requests_per_s),
            _judge("USS", self.uss, LEAST_BYTES_A_REQUEST, requests_per_s),
            _judge("blocks", self.blocks, LEAST_BLOCKS_A_REQUEST, requests_per_s),
        ]


def _judge(name: str, readings: list[Reading], floor: float, requests_per_s: float) -> Judgement:
    found = slope(readings)
    if found is None:
        return Judgement(name, None, 0.0, floor, None)
    is_noise = found.is_noise(floor * requests_per_s)
    return Judgement(name, found, found.per_s / max(requests_per_s, 1e-9), floor, is_noise)

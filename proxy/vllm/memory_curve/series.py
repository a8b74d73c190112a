"""One GPU's memory over time in bounded space: the coarser the longer it goes on.

Samples are gathered in bins of equally many; when there are too many bins, neighbours are merged
and each holds twice as many. Peaks and lows survive every merge, with the line they stood on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.vllm.memory_curve.reader import MemorySample

MOST_BINS = 1024


@dataclass(slots=True)
class Bin:
    """`count` samples from `first_s` to `last_s`: their sum, lowest, highest, all in bytes."""

    first_s: float
    last_s: float
    count: int
    sum: int
    low: int
    high: int
    last: int
    high_line: int
    high_text: str
    last_line: int
    last_text: str

    @property
    def mean(self) -> float:
        return self.sum / self.count

    def join(self, later: Bin) -> None:
        self.last_s = later.last_s
        self.count += later.count
        self.sum += later.sum
        self.low = min(self.low, later.low)
        self.last, self.last_line, self.last_text = later.last, later.last_line, later.last_text
        if later.high > self.high:
            self.high, self.high_line, self.high_text = later.high, later.high_line, later.high_text


class MemorySeries:
    """Feed it the samples of one GPU in their order; those without `used` are passed over."""

    def __init__(self, most_bins: int = MOST_BINS) -> None:
        self.bins: list[Bin] = []
        self.samples = 0
        self.total: int | None = None
        self.name: str | None = None
        self._most_bins = most_bins
        self._per_bin = 1

    @property
    def peak(self) -> int | None:
        return max((each.high for each in self.bins), default=None)

    def add(self, sample: MemorySample) -> None:
        self.name = sample.name or self.name
        self.total = sample.total or self.total
        if sample.used is None:
            return
        self.samples += 1
        single = _bin_of(sample, sample.used)
        if self.bins and self.bins[-1].count < self._per_bin:
            self.bins[-1].join(single)
        else:
            self.bins.append(single)
        if len(self.bins) > self._most_bins:
            self._halve()

    def _halve(self) -> None:
        for even, odd in zip(self.bins[::2], self.bins[1::2], strict=False):
            even.join(odd)
        self.bins = self.bins[::2]
        self._per_bin *= 2


def _bin_of(sample: MemorySample, used: int) -> Bin:
    return Bin(
        first_s=sample.at_s,
        last_s=sample.at_s,
        count=1,
        sum=used,
        low=used,
        high=used,
        last=used,
        high_line=sample.line,
        high_text=sample.text,
        last_line=sample.line,
        last_text=sample.text,
    )

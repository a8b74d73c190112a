"""What must hold at every moment, judged by what the gateway's and the engines' pages say."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.soak.pages import Sample

# An abort and the request that gets its seat reach the engine over two connections, and it may
# read the later one first. So it may know of a few more for a moment; of more or for longer, never.
READ_OUT_OF_ORDER = 8
MOMENT_LOOKS = 5
_KEPT = 20


@dataclass(frozen=True)
class Bounds:
    """`limit`: seats in each engine. `places`: in the queue."""

    limit: int
    places: int
    connections: int


@dataclass
class Invariants:
    """Is shown sample after sample. `broken` counts what did not hold, `examples` has the first
    of them in words."""

    bounds: Bounds
    samples: int = 0
    engine_looks: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    most_in_flight: float = 0
    most_queued: float = 0
    most_in_engine: int = 0
    most_on_its_way: float = 0
    looks_above_limit: int = 0
    _counters: Mapping[str, float] = field(default_factory=dict)
    _above: Counter[str] = field(default_factory=Counter)

    def see(self, sample: Sample) -> None:
        """One page of the gateway. Its figures are of one moment: it is written in one step."""
        self.samples += 1
        self._seats(sample)
        self._sums(sample)
        for name, value in sample.gauges.items():
            self._hold("a gauge is not negative", value >= 0, f"{name} {value:g}")
        for name, before in self._counters.items():
            now = sample.counters.get(name)
            detail = f"{name}: {before:g}, then {now}"
            self._hold("counters do not fall", now is not None and now >= before, detail)
        self._counters = sample.counters

    def _seats(self, sample: Sample) -> None:
        for engine, seats in sample.in_flight.items():
            self.most_in_flight = max(self.most_in_flight, seats)
            detail = f"{engine}: {seats:g} of {self.bounds.limit}"
            self._hold("in flight is within the limit", seats <= self.bounds.limit, detail)
        self.most_queued = max(self.most_queued, sample.queued)
        within = sample.queued <= self.bounds.places
        self._hold("the queue is within its depth", within, f"{sample.queued:g}")

    def _sums(self, sample: Sample) -> None:
        """Each request that came is over, runs, waits, or is on its way from one to another: its
        body is being read, or its refusal written. Of those there are no more than connections."""
        on_its_way = sample.arrivals - sample.ended - sample.queued - sum(sample.in_flight.values())
        self.most_on_its_way = max(self.most_on_its_way, on_its_way)
        within = 0 <= on_its_way <= self.bounds.connections
        self._hold("every request is somewhere, once", within, f"{on_its_way:g} on their way")

    def see_engine(self, name: str, requests: int) -> None:
        """How many one engine has, running or waiting in it."""
        self.engine_looks += 1
        self.most_in_engine = max(self.most_in_engine, requests)
        above = requests > self.bounds.limit
        self.looks_above_limit += above
        self._above[name] = self._above[name] + 1 if above else 0
        holds = (
            requests <= self.bounds.limit + READ_OUT_OF_ORDER and self._above[name] <= MOMENT_LOOKS
        )
        detail = f"{name}: {requests}, {self._above[name]} looks above {self.bounds.limit}"
        self._hold("an engine has no more than the limit", holds, detail)

    def _hold(self, what: str, holds: bool, detail: str) -> None:
        if not holds:
            self.broken[what] += 1
            if len(self.examples) < _KEPT:
                self.examples.append(f"{what}: {detail}")

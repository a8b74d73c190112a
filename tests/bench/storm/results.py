"""What is shown of a row, over the rounds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.arithmetic import Spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.bench.storm.rows import Row


@dataclass(frozen=True)
class Column:
    key: str
    heading: str
    digits: int


COLUMNS = (
    Column("good_per_s", "good/s", 2),
    Column("ratio", "to the closed loop", 3),
    Column("tries", "tries per request", 2),
    Column("first_byte_s", "p99 to first byte, s", 2),
    Column("own_first_byte_s", "of its own try, s", 2),
    Column("refusal_ms", "p99 of refusals, ms", 1),
    Column("in_vain", "waited in vain, % of tries", 1),
    Column("waiting", "waiting in the engine", 0),
    Column("running", "running", 0),
    Column("unread", "answers that nobody read", 0),
    Column("normal_after_s", "normal after, s", 1),
)


class Results:
    """Of one engine. A row that failed in a round has no numbers for it."""

    def __init__(self) -> None:
        self._values: dict[tuple[Row, str], dict[int, float]] = defaultdict(dict)
        self.references: list[float] = []
        self.why_not: dict[Row, str] = {}
        self.rounds = 0

    def add(self, row: Row, number: int, measured: Mapping[str, float]) -> None:
        self.rounds = max(self.rounds, number)
        for key, value in measured.items():
            self._values[row, key][number] = value

    def failed(self, row: Row, number: int, why: str) -> None:
        self.rounds = max(self.rounds, number)
        self.why_not[row] = why

    def by_round(self, row: Row, key: str) -> dict[int, float]:
        return self._values.get((row, key), {})

    def spread(self, row: Row, key: str) -> Spread | None:
        return Spread.of(list(self.by_round(row, key).values()), self.rounds)

    def most(self, key: str) -> float | None:
        """Over all rows and rounds."""
        found = [v for (_, one), by in self._values.items() if one == key for v in by.values()]
        return max(found, default=None)

    def offered_at(self, times: float) -> Spread | None:
        found = [
            value
            for (row, key), by_round in self._values.items()
            if key == "offered_per_s" and row.times == times
            for value in by_round.values()
        ]
        return Spread.of(found, len(found))

"""What was measured: a number for each column, contender and round, or why there is none."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.bench.arithmetic import Spread, added, ratios
from tests.bench.contenders import DIRECT, VLLM_ROUTER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.bench.figure import Column


class Results:
    """Rounds are numbered; a round in which something failed has no number for it."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
        self._why_not: dict[tuple[str, str], str] = {}
        self._rounds: set[int] = set()

    def add(self, contender: str, round_number: int, measured: Mapping[str, float]) -> None:
        self._rounds.add(round_number)
        for key, value in measured.items():
            self._values[key, contender][round_number] = value

    def failed(self, figure: str, contender: str, why: str) -> None:
        self._why_not[figure, contender] = why

    def why_not(self, figure: str, contender: str) -> str | None:
        """Why a measurement of this figure failed, the last time that one did."""
        return self._why_not.get((figure, contender))

    def by_round(self, column: Column, contender: str) -> dict[int, float]:
        """As the column is shown: less the direct way where it says so."""
        values = self._values.get((column.key, contender), {})
        if column.minus_direct and contender != DIRECT:
            return added(values, self._values.get((column.key, DIRECT), {}))
        return values

    def spread(self, column: Column, contender: str) -> Spread | None:
        return Spread.of(list(self.by_round(column, contender).values()), len(self._rounds))

    def ratio(self, column: Column, contender: str, to: str = VLLM_ROUTER) -> Spread | None:
        """Of the same rounds; None where either was not measured."""
        in_rounds = ratios(self.by_round(column, contender), self.by_round(column, to))
        return Spread.of(in_rounds, len(self._rounds))

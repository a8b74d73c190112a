"""CSV traces of one request a row: when, and how many tokens were read and written.

Columns are found by their names, wherever they stand.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.replay.arrival import Arrival
from proxy.replay.traces.numbers import tokens
from proxy.replay.traces.problem import BadLineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proxy.replay.traces.lines import TraceLines


@dataclass(frozen=True, slots=True)
class CsvTrace:
    """The columns of one kind of trace, as its publisher spells them. `seconds` reads a time, given
    what is written and the column's name."""

    time: str
    prompt: str
    output: str
    seconds: Callable[[str, str], float]

    @property
    def _wanted(self) -> list[str]:
        return names_of(f"{self.time},{self.prompt},{self.output}")

    def has(self, first_line: str) -> bool:
        return set(self._wanted) <= set(names_of(first_line))

    def rows(self, lines: TraceLines, header: str) -> Iterator[Arrival]:
        """On the trace's own clock. Raises BadTraceError."""
        columns = Columns(header, self._wanted)

        def parse(line: str) -> Arrival:
            at, prompt, output = columns.pick(line)
            return Arrival(
                self.seconds(at, self.time),
                tokens(prompt, self.prompt),
                tokens(output, self.output),
            )

        for number, line in lines:
            if number > 1 and (row := lines.read(number, line, parse)) is not None:
                yield row


def cells_of(line: str) -> list[str]:
    """Raises BadLineError."""
    try:
        return [cell.strip() for cell in next(csv.reader([line], strict=True))]
    except csv.Error as error:
        raise BadLineError(f"not CSV: {error}") from error


def names_of(header: str) -> list[str]:
    """Column names in lower case without blanks: files of one trace spell them differently."""
    return [cell.lower().replace(" ", "").replace("_", "") for cell in header.split(",")]


class Columns:
    """Picks some columns of a line. Raises BadLineError for a line of another width."""

    def __init__(self, header: str, wanted: Sequence[str]) -> None:
        names = names_of(header)
        self._width = len(names)
        self._at = [names.index(name) for name in wanted]

    def pick(self, line: str) -> list[str]:
        cells = cells_of(line) if '"' in line else line.split(",")
        if len(cells) != self._width:
            raise BadLineError(f"{len(cells)} columns where the first line has {self._width}")
        return [cells[at] for at in self._at]

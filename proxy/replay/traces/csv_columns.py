"""Rows of a CSV trace by the names of its columns, wherever they stand."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from proxy.replay.traces.problem import BadLineError

if TYPE_CHECKING:
    from collections.abc import Sequence


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

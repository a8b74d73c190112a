"""Which column of a memory curve is which: told by its header, or guessed from its rows.

nvidia-smi writes the columns in the order they were asked for, heads them with their names unless
told `noheader`, and puts units into header and cells unless told `nounits`.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from proxy.vllm.memory_curve.cells import MIB, moment_of, number_of, size_of, unit_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Where things stand in a row of `width` cells; None: nowhere.

    `used_unit` and `total_unit` are bytes, for cells that name no unit. `extra` are the columns of
    `sluice record` beside nvidia-smi's, by name.
    """

    width: int
    delimiter: str = ","
    time: int | None = None
    unix_time: int | None = None
    index: int | None = None
    identity: int | None = None
    name: int | None = None
    count: int | None = None
    used: int | None = None
    total: int | None = None
    free: int | None = None
    utilization: int | None = None
    used_unit: int = MIB
    total_unit: int = MIB
    extra: Mapping[str, int] = field(default_factory=dict)

    @property
    def names_gpus(self) -> bool:
        return self.index is not None or self.identity is not None

    @property
    def ends_in_a_bare_number(self) -> bool:
        """Then a row that was cut in its last cell looks whole."""
        return self.width - 1 in (self.used, self.total, self.free, *self.extra.values())


_NAMES = {
    "timestamp": "time",
    "unix_time_s": "unix_time",
    "index": "index",
    "gpu": "index",
    "gpu_uuid": "identity",
    "uuid": "identity",
    "pci.bus_id": "identity",
    "gpu_bus_id": "identity",
    "gpu_serial": "identity",
    "name": "name",
    "gpu_name": "name",
    "count": "count",
    "memory.used": "used",
    "memory.total": "total",
    "memory.free": "free",
    "utilization.gpu": "utilization",
}
_HEADER_CELL = re.compile(r"([\w.]++)\s*+(?:\[([^\]]*+)\])?")
_DELIMITERS = (",", ";", "\t")
_OURS = ("engine.", "sluice.")


def cells_of(line: str, delimiter: str) -> Row:
    """The cells without the blanks around them."""
    if '"' in line:
        row = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
        return [cell.strip() for cell in row]
    return [cell.strip() for cell in line.split(delimiter)]


def header_of(line: str) -> Columns | None:
    """None: this line is no header of a memory curve."""
    if "memory." not in line and "unix_time_s" not in line:
        return None
    delimiter = max(_DELIMITERS, key=line.count)
    places: dict[str, int] = {}
    units: dict[str, int] = {}
    extra: dict[str, int] = {}
    cells = cells_of(line, delimiter)
    for place, cell in enumerate(cells):
        match = _HEADER_CELL.fullmatch(cell)
        if match is None:
            return None  # a line that speaks of such columns, say the command that asks for them
        name = match[1].lower()
        if name.startswith(_OURS):
            extra[name] = place
        elif (known := _NAMES.get(name)) and known not in places:
            places[known] = place
            units[known] = unit_named(match[2] or "") or MIB
    if not places.keys() & {"used", "free", "unix_time"}:
        return None
    return Columns(
        width=len(cells),
        delimiter=delimiter,
        used_unit=units.get("used", units.get("free", MIB)),
        total_unit=units.get("total", MIB),
        extra=extra,
        **places,
    )


def guess(rows: Sequence[Row]) -> Columns | None:
    """From rows without a header; None where it would be a coin's toss.

    A column is the time where all cells are moments; memory where they name a unit of size, or
    where they are whole numbers of which one is above 100; the GPU's load where they carry a
    percent sign or stay within 100. Of two columns of memory the one that never changes, and is
    larger, is the total. Small numbers that count up from 0 and begin again are the GPU's index.
    """
    width = len(rows[0]) if rows else 0
    rows = [row for row in rows if len(row) == width]
    columns = [[row[place] for row in rows] for place in range(width)]
    time = next((i for i, column in enumerate(columns) if _all(column, moment_of)), None)
    index = next((i for i, column in enumerate(columns) if i != time and _cycles(column)), None)
    rest = [i for i in range(width) if i not in (time, index)]
    loads = [i for i in rest if _is_load(columns[i], named=True)]
    memory = [i for i in rest if _is_memory(columns[i], named=True)]
    if not memory:
        memory = [i for i in rest if i not in loads and _is_memory(columns[i], named=False)]
    if not loads:
        loads = [i for i in rest if i not in memory and _is_load(columns[i], named=False)]
    used, total = _used_and_total(memory, columns)
    if used is None or (time is None and not any("i" in c.lower() for c in columns[used])):
        return None
    return Columns(
        width=width,
        time=time,
        index=index,
        used=used,
        total=total,
        utilization=loads[0] if loads else None,
    )


def _all(column: Row, read: object) -> bool:
    return callable(read) and all(read(cell) is not None for cell in column)


def _cycles(column: Row) -> bool:
    """0, 1, 2, 0, 1, 2; also all 0, which is one GPU's index or a load that never was."""
    numbers = [int(cell) if cell.isdecimal() else -1 for cell in column]
    if len(numbers) < 2 or numbers[0] != 0 or max(numbers) == 0:
        return False
    return all(b in (a + 1, 0) for a, b in pairwise(numbers))


def _is_load(column: Row, *, named: bool) -> bool:
    told = [cell for cell in column if not cell.startswith("[")]
    if named:
        return any(cell.endswith("%") for cell in told)
    numbers = [number_of(cell) for cell in told]
    return bool(numbers) and all(number is not None and number <= 100 for number in numbers)


def _is_memory(column: Row, *, named: bool) -> bool:
    told = [cell for cell in column if not cell.startswith("[")]
    sizes = [size_of(cell, MIB) for cell in told]
    if not sizes or None in sizes:
        return False
    if named:
        return all(cell[-1:].lower() == "b" for cell in told)
    return all(cell.isdecimal() for cell in told) and max(map(int, told)) > 100


def _used_and_total(memory: list[int], columns: list[Row]) -> tuple[int | None, int | None]:
    if len(memory) == 1:
        return memory[0], None
    if len(memory) != 2:
        return None, None
    first, second = memory
    for used, total in ((first, second), (second, first)):
        pairs = [(_bytes(u), _bytes(t)) for u, t in zip(columns[used], columns[total], strict=True)]
        if len(set(columns[total])) <= 2 and all(u <= t for u, t in pairs):
            return used, total
    return None, None


def _bytes(cell: str) -> int:
    return size_of(cell, MIB) or 0

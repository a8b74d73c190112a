"""The samples of a memory curve, line by line: nvidia-smi's CSV, or the file of `sluice record`.

    nvidia-smi --query-gpu=timestamp,memory.used,utilization.gpu --format=csv -l 1

in any order of columns, with or without header and units, of one GPU or several. Rows that are
cut, garbled or of another table are left out.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.vllm.endless_numbers import text_without_endless_numbers
from proxy.vllm.memory_curve.cells import moment_of, number_of, size_of
from proxy.vllm.memory_curve.columns import Columns, Row, cells_of, guess, header_of
from proxy.vllm.memory_curve.ticks import Turns, turns_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# So many rows are looked at before it is decided what the columns are and how many GPUs there are.
_HEAD_ROWS = 64
_PERIOD_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySample:
    """One row: one GPU at one moment. Sizes in bytes, `utilization` from 0 to 1, None is untold.

    `at_s` are seconds on the file's own clock, made to run forward only. `extra` holds what
    `sluice record` adds, by column name.
    """

    line: int
    text: str
    at_s: float
    gpu: int
    name: str | None = None
    used: int | None = None
    total: int | None = None
    utilization: float | None = None
    extra: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Raw:
    line: int
    text: str
    row: Row


class CurveReader:
    """Takes lines without their ends; gives samples, the first ones a few lines late."""

    def __init__(self) -> None:
        self.rows = 0
        self.skipped = 0
        self._line = 0
        self._columns: Columns | None = None
        self._head: deque[_Raw] | None = deque()
        self._turns = Turns(1, None)
        self._identities: dict[str, int] = {}
        self._clock = _Clock()

    @property
    def understood(self) -> bool:
        """Whether the columns are known."""
        return self._columns is not None

    def feed(self, line: str) -> list[MemorySample]:
        self._line += 1
        line = text_without_endless_numbers(line.strip("\r\n\ufeff\0 "))
        if not line:
            return []
        columns = header_of(line)
        if columns is not None:
            return self._begin(columns)
        if "," not in line and self._columns is None:
            return []  # a shell's prompt, or kubectl's greeting
        delimiter = self._columns.delimiter if self._columns else ","
        return self._take(_Raw(self._line, line, cells_of(line, delimiter)))

    def close(self, unfinished: str = "") -> list[MemorySample]:
        """The file ends, perhaps in a line without its end, which counts where it looks whole."""
        samples = []
        if unfinished and not (self._columns and self._columns.ends_in_a_bare_number):
            samples = self.feed(unfinished)
        return samples + self._flush()

    def _begin(self, columns: Columns) -> list[MemorySample]:
        samples = self._flush() if self._columns else []
        if self._columns is None or self._columns.names_gpus != columns.names_gpus:
            self._head = None if columns.names_gpus else deque()
        self._columns = columns
        self._turns.begin()
        return samples

    def _take(self, raw: _Raw) -> list[MemorySample]:
        if self._head is None:
            return self._samples([raw])
        self._head.append(raw)
        return self._flush() if len(self._head) == _HEAD_ROWS else []

    def _flush(self) -> list[MemorySample]:
        """The first rows are enough, or all there are."""
        head, self._head = self._head, None
        if not head:
            return []
        if self._columns is None:
            self._columns = guess([raw.row for raw in head])
            if self._columns is None:
                self._head = deque()  # perhaps the rows to come are clearer, or a header
                self.skipped += len(head)
                return []
        if not self._columns.names_gpus:
            self._turns = self._learn(head, self._columns)
        return self._samples(head)

    def _learn(self, head: Iterable[_Raw], columns: Columns) -> Turns:
        rows = [raw.row for raw in head if len(raw.row) == columns.width]
        told = _cell(rows[0], columns.count) if rows else ""
        moments = [_moment(row, columns) for row in rows]
        return turns_of(moments, int(told) if told.isdecimal() and told != "0" else None)

    def _samples(self, raws: Iterable[_Raw]) -> list[MemorySample]:
        columns = self._columns
        samples = []
        for raw in raws:
            sample = self._sample(raw, columns) if columns else None
            self.rows += sample is not None
            self.skipped += sample is None
            if sample is not None:
                samples.append(sample)
        return samples

    def _sample(self, raw: _Raw, columns: Columns) -> MemorySample | None:
        row = raw.row
        if len(row) != columns.width:
            return None
        moment = _moment(row, columns)
        if moment is None and (columns.time is not None or columns.unix_time is not None):
            return None
        gpu = self._gpu(row, columns, moment)
        total = size_of(_cell(row, columns.total), columns.total_unit)
        used = size_of(_cell(row, columns.used), columns.used_unit)
        free = size_of(_cell(row, columns.free), columns.used_unit)
        if used is None and total is not None and free is not None:
            used = total - free
        load = number_of(_cell(row, columns.utilization))
        return MemorySample(
            line=raw.line,
            text=raw.text,
            at_s=self._clock.at(moment, gpu),
            gpu=gpu,
            name=_told(_cell(row, columns.name)),
            used=used,
            total=total,
            utilization=None if load is None else load / 100,
            extra=_extra(row, columns),
        )

    def _gpu(self, row: Row, columns: Columns, moment: float | None) -> int:
        index = _cell(row, columns.index)
        if index.isdecimal():
            return int(index)
        if columns.identity is not None:
            return self._identities.setdefault(row[columns.identity], len(self._identities))
        return 0 if columns.names_gpus else self._turns.gpu_of(moment)


class _Clock:
    """Runs forward: nvidia-smi writes local time, which summer's end sets back."""

    def __init__(self) -> None:
        self._shift_s = 0.0
        self._last_s = 0.0
        self._rows: dict[int, int] = {}

    def at(self, moment: float | None, gpu: int) -> float:
        if moment is None:
            self._rows[gpu] = self._rows.get(gpu, -1) + 1
            return self._rows[gpu] * _PERIOD_S
        at_s = moment + self._shift_s
        if at_s < self._last_s - _PERIOD_S:
            self._shift_s += self._last_s - at_s
            at_s = self._last_s
        self._last_s = max(at_s, self._last_s)
        return at_s


def read_memory_curve(lines: Iterable[str]) -> Iterator[MemorySample]:
    """All samples of whole lines; never raises for what they say."""
    reader = CurveReader()
    for line in lines:
        yield from reader.feed(line)
    yield from reader.close()


def _cell(row: Row, place: int | None) -> str:
    return "" if place is None else row[place]


def _told(cell: str) -> str | None:
    return cell if cell and not cell.startswith("[") else None


def _moment(row: Row, columns: Columns) -> float | None:
    for place in (columns.unix_time, columns.time):
        moment = None if place is None else moment_of(row[place])
        if moment is not None and math.isfinite(moment):
            return moment
    return None


def _extra(row: Row, columns: Columns) -> dict[str, float]:
    told = ((name, number_of(row[place])) for name, place in columns.extra.items())
    return {name: number for name, number in told if number is not None}

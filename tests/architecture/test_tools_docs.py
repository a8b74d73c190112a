"""docs/doctor.md, docs/record.md and docs/compare.md name what the tools say, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from proxy.cli.doctor import doctor
from proxy.cli.record import record
from proxy.recording.table import COLUMNS
from proxy.replay.reading import Code
from proxy.vllm.doctor.evidence import Phase
from proxy.vllm.memory_curve.shape import Shape

DOCS = Path(__file__).parents[2] / "docs"
DOCTOR = (DOCS / "doctor.md").read_text()
RECORD = (DOCS / "record.md").read_text()
COMPARE = (DOCS / "compare.md").read_text()


def first_cells(page: str, title: str) -> list[str]:
    """What stands in backquotes in the first column of the table with that title."""
    table = page[page.index(f"| {title} |") :].split("\n\n", maxsplit=1)[0]
    return [
        name
        for row in table.splitlines()[2:]
        for name in re.findall(r"`([^`]+)`", row.split("|")[1])
    ]


def test_every_phase_has_a_row_and_every_row_is_a_phase() -> None:
    assert first_cells(DOCTOR, "`phase`") == [phase.value for phase in Phase]


def test_every_shape_of_a_curve_has_a_row() -> None:
    assert set(first_cells(DOCTOR, "shape")) == {shape.name.lower() for shape in Shape}


def test_every_column_of_a_recording_has_a_row_in_its_order() -> None:
    assert tuple(first_cells(RECORD, "column")) == COLUMNS


def test_every_reading_of_a_comparison_has_a_row_and_every_row_is_one() -> None:
    assert set(first_cells(COMPARE, "code")) == set(Code)


def test_every_option_is_told() -> None:
    for command, page in ((doctor, DOCTOR), (record, RECORD)):
        names = {name for param in command.params for name in param.opts if name.startswith("--")}
        assert [name for name in names - {"--help"} if name not in page] == []

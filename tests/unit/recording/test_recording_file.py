from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.recording.recording_file import ForeignFileError, open_recording
from proxy.recording.table import HEADER

if TYPE_CHECKING:
    from pathlib import Path


def written(path: Path, *rows: str) -> list[str]:
    with open_recording(str(path)) as file:
        file.write(rows)
        assert path.read_text().endswith("\n")  # before it is closed
    return path.read_text().splitlines()


def test_a_new_file_begins_with_the_header(tmp_path: Path) -> None:
    assert written(tmp_path / "r.csv", "a", "b") == [HEADER, "a", "b"]


def test_an_earlier_recording_is_continued(tmp_path: Path) -> None:
    written(tmp_path / "r.csv", "a")
    assert written(tmp_path / "r.csv", "b") == [HEADER, "a", "b"]


@pytest.mark.parametrize(
    ("before", "kept"),
    [(f"{HEADER}\na\nb, 12", [HEADER, "a"]), (HEADER[:20], [HEADER]), (HEADER, [HEADER])],
)
def test_a_line_that_a_crash_cut_is_taken_away(
    tmp_path: Path, before: str, kept: list[str]
) -> None:
    path = tmp_path / "r.csv"
    path.write_text(before)
    assert written(path, "c") == [*kept, "c"]


@pytest.mark.parametrize("before", ["timestamp, memory.used [MiB]\n", "notes", f"{HEADER}, x\n"])
def test_a_foreign_file_is_left_alone(tmp_path: Path, before: str) -> None:
    path = tmp_path / "r.csv"
    path.write_text(before)
    with pytest.raises(ForeignFileError, match="not a recording"):
        written(path, "c")
    assert path.read_text() == before


def test_two_recordings_do_not_write_to_one_file(tmp_path: Path) -> None:
    path = str(tmp_path / "r.csv")
    with (
        open_recording(path),
        pytest.raises(ForeignFileError, match="another recording"),
        open_recording(path),
    ):
        pass


def test_standard_output_is_a_file_too(capfd: pytest.CaptureFixture[str]) -> None:
    with open_recording("-") as file:
        file.write(["a"])
    assert capfd.readouterr().out == f"{HEADER}\na\n"

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proxy.cli.output_files import refuse_unwritable


def test_what_can_be_written_passes_and_nothing_is_written(tmp_path: Path) -> None:
    there = tmp_path / "earlier.json"
    there.write_text("kept")
    refuse_unwritable(None, there, tmp_path / "new.json", Path("relative.json"), Path(os.devnull))
    assert [each.name for each in tmp_path.iterdir()] == ["earlier.json"]
    assert there.read_text() == "kept"


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        refuse_unwritable(path)
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_a_missing_folder_and_a_folder_are_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none" / "r.json"
    assert refused(missing, capsys) == f"error: {missing}: No such file or directory\n"
    assert refused(tmp_path, capsys) == f"error: {tmp_path}: Is a directory\n"


def test_a_file_or_folder_of_somebody_else_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "theirs.json"
    there.touch()
    monkeypatch.setattr("proxy.cli.output_files.os.access", lambda *_: False)  # root may all
    for path in (there, tmp_path / "new.json"):
        assert refused(path, capsys) == f"error: {path}: Permission denied\n"


def test_a_dash_is_no_file_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(Path("-"), capsys) == (
        "error: -: name a file; this one is not written to standard output\n"
    )

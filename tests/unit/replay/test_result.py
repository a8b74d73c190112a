"""A result is read back as it was written, or one sentence says what is wrong and where."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from proxy.replay.result import (
    BadResultError,
    ReplayResult,
    read_result,
    to_short_json,
    write_result,
)
from tests.support.replay_records import completed, made_up_run, refused, result_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RESULT = result_of(completed(0.0), completed(1.0), refused(2.0))


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    write_result(RESULT, path)
    return path


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def test_what_was_written_is_read_back(written: Path) -> None:
    assert read_result(written) == RESULT


def test_a_longer_run_too(tmp_path: Path) -> None:
    result = made_up_run(seed=1, served=0.7)
    write_result(result, tmp_path / "run.json")
    assert read_result(tmp_path / "run.json") == result


def test_writing_leaves_nothing_else_behind(written: Path) -> None:
    assert list(written.parent.iterdir()) == [written]


def test_a_file_that_cannot_be_replaced_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    with pytest.raises(OSError, match=r"run\.json"):
        write_result(RESULT, tmp_path / "run.json")
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_device_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    link = tmp_path / "null"
    link.symlink_to(os.devnull)
    write_result(RESULT, link)
    assert link.is_symlink()
    assert link.is_char_device()


def test_a_field_that_a_later_version_adds_is_no_obstacle(written: Path) -> None:
    change(written, lambda content: content.update(later=1))
    assert read_result(written) == RESULT


def test_the_short_form_has_the_figures_and_not_each_request() -> None:
    short = json.loads(to_short_json(RESULT))
    assert set(ReplayResult.__struct_fields__) - set(short) == {"requests", "gaps"}


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda c: c.pop("format"), "not a result of sluice replay: .*missing.*`format`"),
        (lambda c: c.update(format="x" * 99), "its format is 'x{40}'$"),
        (lambda c: c.update(format_version=9), "format version 9; this sluice reads version 1"),
        (lambda c: c["requests"]["ttft_s"].__setitem__(1, "x"), r"at `\$.requests.ttft_s\[1\]`"),
        (lambda c: c["requests"]["tries"].pop(), "requests have different lengths: .*tries 2"),
        (lambda c: c["series"]["good"].pop(), "series have different lengths"),
        (lambda c: c["series"]["sheds"]["queue_full"].pop(), "queue_full"),
        (lambda c: c["gaps"]["count"].pop(), "gaps have different lengths"),
        (lambda c: c["load"].pop("hash"), "load has no hash"),
    ],
)
def test_a_bad_file_is_named_and_the_place_in_it(
    written: Path, edit: Callable[[dict[str, Any]], object], said: str
) -> None:
    change(written, edit)
    with pytest.raises(BadResultError, match=f"^{written}: (?s:.*){said}") as raised:
        read_result(written)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b"hello", b'{"format": '])
def test_what_is_no_json_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(BadResultError, match=r"x: not (whole JSON|a result of sluice replay)"):
        read_result(tmp_path / "x")


def test_half_a_file_is_not_whole(written: Path) -> None:
    written.write_bytes(written.read_bytes()[:500])
    with pytest.raises(BadResultError, match="not whole JSON"):
        read_result(written)


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadResultError, match=f"^{tmp_path / name}: (No such file|Is a directory)"):
        read_result(tmp_path / name)

"""Lines of plain and packed files; a last one that is cut off is normal."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from proxy.replay.traces.lines import TraceLines
from proxy.replay.traces.problem import BadLineError, BadTraceError

if TYPE_CHECKING:
    from pathlib import Path


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadLineError(f"{text!r} is no number") from None


def _read(path: Path) -> tuple[list[int], bool]:
    lines = TraceLines(path)
    read = [lines.read(number, text, _number) for number, text in lines]
    return [value for value in read if value is not None], lines.cut_off


@pytest.mark.parametrize("content", [b"1\n2\n", b"1\r\n2", b"\xef\xbb\xbf1\n\n2\n"])
def test_line_ends_marks_and_blank_lines_do_not_matter(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t"
    path.write_bytes(content)
    assert _read(path) == ([1, 2], False)
    path.write_bytes(gzip.compress(content))
    assert _read(path) == ([1, 2], False)


def test_a_cut_off_last_line_is_left_out_and_said(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"1\n2x")
    assert _read(path) == ([1], True)


def test_a_cut_off_gzip_gives_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(b"1\n2\n")[:-6])
    numbers, cut_off = _read(path)
    assert (numbers, cut_off) == ([1, 2], True)


def test_a_bad_line_elsewhere_is_named_with_file_and_number(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"1\nx\n3\n")
    with pytest.raises(BadTraceError, match=r"t, line 2: 'x' is no number"):
        _read(path)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadTraceError, match="No such file"):
        _read(tmp_path / "none")

from __future__ import annotations

import pytest

from proxy.vllm.doctor.text import LONGEST_LINE, Lines, Utf8


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_any_encoding_becomes_utf_8_wherever_it_is_cut(encoding: str) -> None:
    text = "INFO 12-02 héllo\r\nsecond line\r\n"
    raw = text.encode(encoding)
    for cut in (20, 31, len(raw)):
        utf8 = Utf8()
        assert (utf8.feed(raw[:cut]) + utf8.feed(raw[cut:])).decode() == text


def test_lines_are_put_together_from_blocks() -> None:
    lines = Lines()
    assert list(lines.feed(b"one\r\ntw")) == ["one"]
    assert list(lines.feed(b"o\n\nthree")) == ["two", ""]
    assert lines.rest == b"three"


def test_a_line_without_end_does_not_fill_memory_and_keeps_its_number() -> None:
    lines = Lines()
    assert list(lines.feed(b"x" * (LONGEST_LINE + 1))) == []
    assert lines.rest == b""
    assert list(lines.feed(b"y\nnext\n")) == ["", "next"]

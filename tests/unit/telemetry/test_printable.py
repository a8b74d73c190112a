from __future__ import annotations

import pytest

from proxy.telemetry.printable import printable


@pytest.mark.parametrize("text", ["", "req-1", 'a "quoted" id', "中文 é"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a\nb", r"a\nb"),
        ("a\r\nb", r"a\r\nb"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9b31m", r"\x9b31m"),
        ("\x7f", r"\x7f"),
        ("a\u2028b", r"a\u2028b"),
        ("\u202etxt", r"\u202etxt"),
    ],
)
def test_what_could_break_or_repaint_a_line_is_escaped(text: str, escaped: str) -> None:
    assert printable(text) == escaped

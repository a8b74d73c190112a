"""Makes text safe to put on one line of a log that a person reads in a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` with every character that could break or repaint a line written as an escape.

    Line ends, control and bidirectional characters, and whatever else has no glyph.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )

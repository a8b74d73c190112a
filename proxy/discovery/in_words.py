"""Names in a line of the log: of hundreds, a few and how many more."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST = 16


def listed(names: Iterable[object]) -> str:
    """`a, b and 7 more`; empty for none."""
    all_of_them = list(map(str, names))
    shown = ", ".join(all_of_them[:_MOST])
    more = len(all_of_them) - _MOST
    return f"{shown} and {more} more" if more > 0 else shown

"""Writes docs/fault-matrix.md from the rules that the tests in tests/faults hold the gateway to.

    python -m scripts.write_fault_matrix

A test fails while the page is not what this writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.matrix import (
    FAULTS_IN_WORDS,
    POINTS_IN_WORDS,
    Fault,
    Impossible,
    Point,
    Promise,
)
from tests.faults.rules import OF_HTTPX, cells, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.matrix import Rule

PAGE = Path(__file__).parents[1] / "docs" / "fault-matrix.md"
_NONE = "–"

_INTRODUCTION = """\
<!-- Written by scripts/write_fault_matrix.py from tests/faults/rules.py: change those. -->
# Fault matrix

What happens to a request when something breaks, at each point of its life. Look up the row of what
broke and the column of when; the words of the cell are explained below the table.

Each cell is tried, for a stream and for a plain answer, with the gateway's own connection pool and
with `SLUICE_UPSTREAM_CLIENT=httpx`: {count} times in all (`make fault-matrix`). After each one:

- Exactly one outcome is counted in `sluice_requests_total` for each request, and it is the one said
  here ([metrics](metrics.md)).
- The client has a complete answer, the engine's or one of ours, or one that is visibly broken off.
  It never has a part that passes for the whole.
- There are as many seats as before, unless it is the gateway that ends: that many requests reach
  the engine at once, one more waits.
- Nothing is left: no request, no seat, no place in the queue, no task, no timer, no socket.

The request that the table is about is the one at that point. In the column *queued* the fault
strikes those that hold the seats; when they are broken off their seats are free, and the one that
waited is served. The engine is not polled in these tests: where it is, as by default, a request
that comes once it was found to be down gets 503 `upstream_unavailable` and not 502.
"""


def page() -> str:
    return "\n".join(
        (
            _INTRODUCTION.format(count=len(cells(Fault))),
            *_matrix(),
            "",
            f"`{_NONE}`: no such cell, or no promise; [why](#cells-that-are-empty).",
            "",
            "## The points",
            "",
            *_two_columns("point", ((one.value, POINTS_IN_WORDS[one]) for one in Point)),
            "",
            "## The faults",
            "",
            *_two_columns("fault", ((one.value, FAULTS_IN_WORDS[one]) for one in Fault)),
            "",
            "## What is promised",
            "",
            *_two_columns("cell", _promises()),
            "",
            "## With the httpx client",
            "",
            "The same, but for these:",
            "",
            "| fault | point | promise |",
            "| --- | --- | --- |",
            *(
                f"| {fault.value} | {point.value} | {_in_words(of_httpx)} |"
                for (fault, point), of_httpx in OF_HTTPX.items()
            ),
            "",
            "## Cells that are empty",
            "",
            "| fault | point | why |",
            "| --- | --- | --- |",
            *_empty(),
            "",
        )
    )


def _matrix() -> Iterator[str]:
    yield f"| | {' | '.join(point.value for point in Point)} |"
    yield f"| --- |{' --- |' * len(Point)}"
    for fault in Fault:
        row = " | ".join(_name(rule(fault, point)) for point in Point)
        yield f"| **{fault.value}** | {row} |"


def _name(of: Rule) -> str:
    return of.name if isinstance(of, Promise) else _NONE


def _in_words(of: Rule) -> str:
    return of.name if isinstance(of, Promise) else of.reason


def _promises() -> Iterator[tuple[str, str]]:
    said: dict[str, str] = {}
    for fault in Fault:
        for point in Point:
            of = rule(fault, point)
            if isinstance(of, Promise):
                said.setdefault(of.name, of.words)
    yield from said.items()


def _empty() -> Iterator[str]:
    for fault in Fault:
        for point in Point:
            of = rule(fault, point)
            if isinstance(of, Impossible):
                yield f"| {fault.value} | {point.value} | {of.reason} |"


def _two_columns(name: str, rows: Iterator[tuple[str, str]]) -> Iterator[str]:
    yield f"| {name} | |"
    yield "| --- | --- |"
    for left, right in rows:
        yield f"| {left} | {right} |"


if __name__ == "__main__":
    PAGE.write_text(page())

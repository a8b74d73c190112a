"""What a reader makes of a trace file, and the part of it that is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.replay.arrival import Arrival


@dataclass(frozen=True, slots=True)
class Window:
    """Seconds of the trace, counted from its first request: from `from_s`, before `until_s`."""

    from_s: float = 0.0
    until_s: float = inf


@dataclass(frozen=True, slots=True)
class Trace:
    """`arrivals` in the order of their times, which count from the beginning of the window.

    `block_tokens`: how many tokens each of an arrival's blocks stands for. `notes` say what was
    left out and how what the file does not say was filled in.
    """

    format: str
    arrivals: tuple[Arrival, ...]
    block_tokens: int = 0
    notes: tuple[str, ...] = ()


def within(rows: Iterable[Arrival], window: Window, *, in_order: bool) -> tuple[Arrival, ...]:
    """The arrivals of a window, from rows with times on any clock.

    Of rows that are in order no more are read than needed: public traces have millions.
    """
    if not in_order:
        rows = sorted(rows, key=_at_s)
    chosen: list[Arrival] = []
    first_s = None
    for row in rows:
        if first_s is None:
            first_s = row.at_s
        at_s = row.at_s - first_s
        if at_s >= window.until_s:
            break
        if at_s >= window.from_s:
            chosen.append(_at(row, at_s - window.from_s))
    return tuple(sorted(chosen, key=_at_s))


def _at_s(arrival: Arrival) -> float:
    return arrival.at_s


def _at(arrival: Arrival, at_s: float) -> Arrival:
    return type(arrival)(
        at_s, arrival.prompt_tokens, arrival.output_tokens, arrival.blocks, arrival.sequences
    )

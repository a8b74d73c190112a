"""BurstGPT (HPMLL/BurstGPT): CSV with times in seconds since the trace began.

Files _1 and _2 have `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type`, _3 has
`Session ID` and `Elapsed time` too. A response of no tokens is a request that failed: nothing can
be said about how long its answer would have been, so it is left out, and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.replay.arrival import Arrival
from proxy.replay.traces.csv_columns import Columns, names_of
from proxy.replay.traces.numbers import seconds, tokens
from proxy.replay.traces.trace import Trace, Window, within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.replay.traces.lines import TraceLines

_COLUMNS = ("timestamp", "requesttokens", "responsetokens")


def is_burstgpt(first_line: str) -> bool:
    return set(_COLUMNS) <= set(names_of(first_line))


def read_burstgpt(lines: TraceLines, header: str, window: Window) -> Trace:
    """Raises BadTraceError."""
    read = within(_rows(lines, Columns(header, _COLUMNS)), window, in_order=True)
    arrivals = tuple(arrival for arrival in read if arrival.output_tokens)
    failed = len(read) - len(arrivals)
    notes = (f"{failed} requests that failed when it was recorded are left out",) if failed else ()
    return Trace("burstgpt", arrivals, notes=notes)


def _rows(lines: TraceLines, columns: Columns) -> Iterator[Arrival]:
    def parse(line: str) -> Arrival:
        at, prompt, output = columns.pick(line)
        return Arrival(
            seconds(at, "Timestamp"),
            tokens(prompt, "Request tokens"),
            tokens(output, "Response tokens"),
        )

    for number, line in lines:
        if number > 1 and (row := lines.read(number, line, parse)) is not None:
            yield row

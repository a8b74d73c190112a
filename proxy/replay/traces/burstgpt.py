"""BurstGPT (HPMLL/BurstGPT): CSV with times in seconds since the trace began.

Files _1 and _2 have `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type`, _3 has
`Session ID` and `Elapsed time` too. A response of no tokens is a request that failed: nothing can
be said about how long its answer would have been, so it is left out, and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.replay.traces.csv_columns import CsvTrace
from proxy.replay.traces.numbers import seconds
from proxy.replay.traces.trace import Trace, Window, within

if TYPE_CHECKING:
    from proxy.replay.traces.lines import TraceLines

_FORM = CsvTrace("Timestamp", "Request tokens", "Response tokens", seconds)


def is_burstgpt(first_line: str) -> bool:
    return _FORM.has(first_line)


def read_burstgpt(lines: TraceLines, header: str, window: Window) -> Trace:
    """Raises BadTraceError."""
    read = within(_FORM.rows(lines, header), window, in_order=True)
    arrivals = tuple(arrival for arrival in read if arrival.output_tokens)
    failed = len(read) - len(arrivals)
    notes = (f"{failed} requests that failed when it was recorded are left out",) if failed else ()
    return Trace("burstgpt", arrivals, notes=notes)

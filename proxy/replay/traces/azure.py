"""Azure LLM inference traces of 2023 (Splitwise), 2024 (DynamoLLM) and 2025 (multimodal).

CSV: `TIMESTAMP,ContextTokens,GeneratedTokens`, in 2025 with `NumImages` too. 2023 writes local
times with seven digits behind the point and CRLF line ends, 2024 an offset and six digits or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.replay.traces.csv_columns import CsvTrace, names_of
from proxy.replay.traces.numbers import unix_seconds
from proxy.replay.traces.trace import Trace, Window, within

if TYPE_CHECKING:
    from proxy.replay.traces.lines import TraceLines

_FORM = CsvTrace("TIMESTAMP", "ContextTokens", "GeneratedTokens", unix_seconds)


def is_azure(first_line: str) -> bool:
    return _FORM.has(first_line)


def read_azure(lines: TraceLines, header: str, window: Window) -> Trace:
    """Raises BadTraceError."""
    arrivals = within(_FORM.rows(lines, header), window, in_order=True)
    has_images = "numimages" in names_of(header)
    notes = ("its images are left out: prompts are text",) if has_images else ()
    return Trace("azure", arrivals, notes=notes)

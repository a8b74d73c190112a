"""Reads a trace of any known form; which one it is, its first line tells."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from proxy.replay.traces.azure import is_azure, read_azure
from proxy.replay.traces.burstgpt import is_burstgpt, read_burstgpt
from proxy.replay.traces.gateway_trace import is_gateway_trace, read_gateway_trace
from proxy.replay.traces.lines import TraceLines
from proxy.replay.traces.mooncake import TimeUnit, is_mooncake, read_mooncake
from proxy.replay.traces.problem import BadTraceError
from proxy.replay.traces.trace import Trace, Window

if TYPE_CHECKING:
    from pathlib import Path

_KNOWN = (
    "a trace of the gateway (SLUICE_TRACE_FILE), Azure's CSV (TIMESTAMP,ContextTokens,"
    "GeneratedTokens), BurstGPT's CSV (Timestamp, Request tokens, Response tokens), or JSON lines "
    "with timestamp, input_length and output_length (Mooncake, vLLM)"
)


def read_trace(path: Path, window: Window | None = None, unit: TimeUnit | None = None) -> Trace:
    """`unit` overrules what is found out about times that have no unit of their own. Raises
    BadTraceError."""
    with closing(iter(TraceLines(path))) as looked_at:
        first = next((text for _, text in looked_at), None)
    if first is None:
        raise BadTraceError(f"{path}: empty")
    lines = TraceLines(path)
    trace = _read(lines, first, window or Window(), unit)
    if not trace.arrivals:
        raise BadTraceError(f"{path}: no request to replay in it{_because(trace)}")
    if not lines.cut_off:
        return trace
    notes = (*trace.notes, "its last line is cut off and left out")
    return Trace(trace.format, trace.arrivals, trace.block_tokens, notes)


def _read(lines: TraceLines, first: str, window: Window, unit: TimeUnit | None) -> Trace:
    if is_gateway_trace(first):
        return read_gateway_trace(lines, window)
    if is_mooncake(first):
        return read_mooncake(lines, window, unit)
    if is_azure(first):
        return read_azure(lines, first, window)
    if is_burstgpt(first):
        return read_burstgpt(lines, first, window)
    raise BadTraceError(f"{lines.path}, line 1: not {_KNOWN}")


def _because(trace: Trace) -> str:
    return f" ({'; '.join(trace.notes)})" if trace.notes else ""

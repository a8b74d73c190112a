"""Mooncake's traces (FAST '25), and what has their keys: vLLM's timed_trace, aiperf, guidellm.

JSON lines of `timestamp`, `input_length`, `output_length` and, where prefixes are shared,
`hash_ids`: one id for each block of the prompt, equal ids for equal text. How many tokens a block
has is not said, but ceil(input_length / block) ids for a prompt tell it: 512 in Mooncake's own
files, 16 where vLLM wrote them. Nor is the unit of the times said: Mooncake counts whole
milliseconds, vLLM's default is seconds. A fraction in the times means seconds, else they are
milliseconds, unless the caller knows better.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Literal

import msgspec

from proxy.replay.arrival import Arrival
from proxy.replay.traces.numbers import seconds, tokens
from proxy.replay.traces.problem import BadLineError
from proxy.replay.traces.trace import Trace, Window, within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from proxy.replay.traces.lines import TraceLines

TimeUnit = Literal["s", "ms"]

_UNIT_S = {"s": 1.0, "ms": 0.001}
_BLOCK_TOKENS = (512, 16, 32, 64, 128, 256, 1024)
_LOOKED_AT = 1000


class _Line(msgspec.Struct):
    timestamp: float | None = None
    input_length: int | None = None
    output_length: int | None = None
    hash_ids: list[int] = []


_decode = msgspec.json.Decoder(_Line).decode


def is_mooncake(first_line: str) -> bool:
    return first_line.startswith("{") and '"input_length"' in first_line


def read_mooncake(lines: TraceLines, window: Window, unit: TimeUnit | None = None) -> Trace:
    """Raises BadTraceError."""
    rows = _rows(lines)
    head = list(islice(rows, _LOOKED_AT))
    unit = unit or _unit_of(head)
    timed = (_timed(row, _UNIT_S[unit]) for row in chain(head, rows))
    arrivals = within(timed, window, in_order=True)
    named = "seconds" if unit == "s" else "milliseconds"
    return Trace("mooncake", arrivals, _block_tokens(head), (f"its times are read as {named}",))


def _rows(lines: TraceLines) -> Iterator[Arrival]:
    for number, line in lines:
        if (row := lines.read(number, line, _parse)) is not None:
            yield row


def _parse(line: str) -> Arrival:
    try:
        read = _decode(line)
    except msgspec.MsgspecError as error:
        raise BadLineError(str(error)) from error
    return Arrival(
        seconds(read.timestamp, "timestamp"),
        tokens(read.input_length, "input_length"),
        tokens(read.output_length, "output_length"),
        tuple(read.hash_ids),
    )


def _timed(row: Arrival, unit_s: float) -> Arrival:
    return Arrival(row.at_s * unit_s, row.prompt_tokens, row.output_tokens, row.blocks)


def _unit_of(head: Iterable[Arrival]) -> TimeUnit:
    return "ms" if all(row.at_s.is_integer() for row in head) else "s"


def _block_tokens(head: Sequence[Arrival]) -> int:
    """The size that fits most of the prompts; 0 where there are no blocks."""
    shared = [row for row in head if row.blocks]
    if not shared:
        return 0
    return max(_BLOCK_TOKENS, key=lambda size: sum(_fits(row, size) for row in shared))


def _fits(row: Arrival, size: int) -> bool:
    return len(row.blocks) == -(-row.prompt_tokens // size)

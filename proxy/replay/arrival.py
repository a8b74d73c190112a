"""One request of a load, before anything is sent: when, how much to read, how much to write."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arrival:
    """`at_s` counts from the start of the trace or of the replay. `blocks` are the ids of the
    pieces that its prompt is made of, where a trace has them: equal ids stand for equal text.
    `output_tokens` are those of each of the `sequences` that are asked for by `n`."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    sequences: int = 1

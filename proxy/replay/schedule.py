"""What is going to be asked, and when: a trace or a made-up load, cut to size.

    at the replay's time t the trace's time is  from + speed x t
    to limit the rate to r, each request is kept with probability r / mean rate, on its own

so that bursts stay bursts and quiet stays quiet. Everything that is random hangs on one seed.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from proxy.replay.arrival import Arrival
from proxy.replay.synthetic.specification import BadSpecificationError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Sequence

    from proxy.replay.synthetic.arrival_process import ArrivalProcess

MOST_ARRIVALS = 5_000_000
"""That are made up: before the first is sent each takes some 200 bytes and 3 us (2026-12)."""

_MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Schedule:
    """`arrivals` in the order of their times; `duration_s` is how long requests arrive. `notes`
    say what was changed."""

    arrivals: tuple[Arrival, ...]
    duration_s: float
    block_tokens: int = 0
    notes: tuple[str, ...] = ()

    def hash_with(self, *sent: str) -> str:
        """Over what is asked: times to the microsecond, lengths, shared blocks, and `sent`, what
        else shapes the requests. Not over the words of the prompts."""
        digest = hashlib.sha256(repr((round(self.duration_s, 6), self.block_tokens, sent)).encode())
        for arrival in self.arrivals:
            digest.update(_packed(arrival))
        return digest.hexdigest()[:16]


def _packed(arrival: Arrival) -> bytes:
    lengths = (arrival.prompt_tokens, arrival.output_tokens, len(arrival.blocks))
    ids = [block & 0xFFFFFFFFFFFFFFFF for block in arrival.blocks]
    packed = struct.pack(f"<q3q{len(ids)}Q", round(arrival.at_s * _MICROSECONDS), *lengths, *ids)
    # Loads without wide requests keep the hashes that they had before there were any.
    return packed if arrival.sequences == 1 else packed + struct.pack("<q", arrival.sequences)


def made_up(
    process: ArrivalProcess,
    lengths: Callable[[random.Random], tuple[int, int]],
    duration_s: float,
    rng: random.Random,
) -> Schedule:
    """`lengths` draws tokens of prompt and output for one request. Raises
    BadSpecificationError."""
    times_s = list(islice(process.times_s(duration_s, rng), MOST_ARRIVALS + 1))
    if len(times_s) > MOST_ARRIVALS:
        raise BadSpecificationError(
            f"more than {MOST_ARRIVALS:,} requests would arrive in {duration_s:g} s: lower the "
            "rate or the duration"
        )
    return Schedule(tuple(Arrival(at_s, *lengths(rng)) for at_s in times_s), duration_s)


def played(
    arrivals: Iterable[Arrival], *, speed: float, duration_s: float | None, block_tokens: int = 0
) -> Schedule:
    """A trace at `speed`. Without a duration it lasts until its last request, and as long after
    that as requests are apart on average."""
    timed = [replace(arrival, at_s=arrival.at_s / speed) for arrival in arrivals]
    if duration_s is None:
        last_s = timed[-1].at_s if timed else 0.0
        duration_s = last_s * len(timed) / max(len(timed) - 1, 1) or 1.0
    kept = tuple(arrival for arrival in timed if arrival.at_s < duration_s)
    return Schedule(kept, duration_s, block_tokens)


def limited(schedule: Schedule, rate_per_s: float, rng: random.Random) -> Schedule:
    """At most `rate_per_s` on average."""
    mean_per_s = len(schedule.arrivals) / schedule.duration_s
    if mean_per_s <= rate_per_s:
        return schedule
    share = rate_per_s / mean_per_s
    kept = tuple(arrival for arrival in schedule.arrivals if rng.random() < share)
    note = f"thinned from {mean_per_s:.3g} to {rate_per_s:.3g} requests a second"
    return replace(schedule, arrivals=kept, notes=(*schedule.notes, note))


@dataclass(frozen=True, slots=True)
class LengthLimits:
    """In tokens; None for no limit. `model_len` bounds prompt and output together."""

    prompt: int | None = None
    output: int | None = None
    model_len: int | None = None

    def applied(self, arrival: Arrival) -> Arrival:
        prompt, output = max(1, arrival.prompt_tokens), max(1, arrival.output_tokens)
        if self.prompt is not None:
            prompt = min(prompt, self.prompt)
        if self.output is not None:
            output = min(output, self.output)
        if self.model_len is not None:
            output = min(output, max(1, self.model_len - 1))
            prompt = min(prompt, max(1, self.model_len - output))
        return replace(arrival, prompt_tokens=prompt, output_tokens=output)


def with_sequences(schedule: Schedule, sequences: int) -> Schedule:
    """Every request asks for so many."""
    wide = tuple(replace(arrival, sequences=sequences) for arrival in schedule.arrivals)
    return replace(schedule, arrivals=wide)


def clamped(schedule: Schedule, limits: LengthLimits) -> Schedule:
    """Every request within the limits, the prompt cut rather than the output."""
    within = tuple(map(limits.applied, schedule.arrivals))
    cut = _count_shorter(schedule.arrivals, within)
    note = (f"{cut} of {len(within)} requests were cut to the limits of length",) if cut else ()
    return replace(schedule, arrivals=within, notes=(*schedule.notes, *note))


def _count_shorter(before: Sequence[Arrival], after: Sequence[Arrival]) -> int:
    return sum(
        old.prompt_tokens > new.prompt_tokens or old.output_tokens > new.output_tokens
        for old, new in zip(before, after, strict=True)
    )

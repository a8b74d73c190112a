"""The gateway's own trace, `SLUICE_TRACE_FILE`: JSON lines, one a request, written as they end.

What is replayed is what clients wanted: the first try of every generation. Retries are left out,
since the replay's clients retry by themselves, and so are requests that were wrong.

Since version 2 a line holds the tokens that the engine counted, where it told them. Where it did
not (version 1, refused requests, streams without usage), they are made up from the rest:

    prompt tokens = prompt bytes / p,           output tokens = answer's bytes / a

with p and a (the latter by route, and apart for streams) the bytes per token of those lines that
have both, and the constants below without any. A request that was never answered is given its
`max_tokens`, or the output of some answered one. One that was refused before its body was read is
given the sizes of some answered one.

A line tells how many sequences its request asked for, not whether by `n` or by several prompts: all
are replayed by `n`, each with its part of the output.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated

import msgspec

from proxy.replay.arrival import Arrival
from proxy.replay.traces.numbers import MOST_TOKENS, seconds
from proxy.replay.traces.problem import BadLineError
from proxy.replay.traces.trace import Trace, Window, within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proxy.replay.traces.lines import TraceLines

_ROUTES = frozenset(
    {
        "chat_completions",
        "cohere_chat",
        "completions",
        "generate",
        "messages",
        "responses",
    }
)
_WRONG = frozenset({"client_error", "rejected"})
# JSON around a prompt of one message, and English in most vocabularies.
_BODY_AROUND_PROMPT = 150
_PROMPT_BYTES_PER_TOKEN = 4.0
# vLLM's events of one token each are about as long; a whole answer has no more than its text.
_EVENT_BYTES = 220.0
_ANSWER_BYTES_PER_TOKEN = 5.0
_SAME_START_S = 2.0


_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class _Line(msgspec.Struct):
    v: int
    arrived_wall_s: float
    offset_s: float
    route: str
    outcome: str
    attempt: int = 0
    stream: bool = False
    seats: int = 1
    body_bytes: int = 0
    response_bytes: int = 0
    prompt_bytes: int | None = None
    max_tokens: int | None = None
    prompt_tokens: _Count | None = None
    output_tokens: _Count | None = None

    @property
    def way(self) -> tuple[str, bool]:
        return self.route, self.stream

    @property
    def sequences(self) -> int:
        """0 seats: refused unread."""
        return max(1, self.seats)

    @property
    def is_measured(self) -> bool:
        return bool(self.prompt_tokens or self.prompt_bytes or self.body_bytes)

    @property
    def sent_bytes(self) -> int:
        return self.prompt_bytes or max(1, self.body_bytes - _BODY_AROUND_PROMPT)


_decode = msgspec.json.Decoder(_Line).decode


def is_gateway_trace(first_line: str) -> bool:
    return first_line.startswith("{") and '"arrived_wall_s"' in first_line


def read_gateway_trace(lines: TraceLines, window: Window) -> Trace:
    """Raises BadTraceError."""
    read = [line for number, text in lines if (line := lines.read(number, text, _parse))]
    wanted = [line for line in read if _is_wanted(line)]
    sizes = _Sizes.learned_from(wanted)
    rng = random.Random(0)
    clock = _clock(wanted)
    rows = [_arrival(clock(line), *sizes.of(line, rng)) for line in wanted]
    return Trace(
        "sluice", within(rows, window, in_order=False), notes=tuple(_notes(read, wanted, sizes))
    )


def _arrival(at_s: float, prompt_tokens: int, output_tokens: int, sequences: int) -> Arrival:
    return Arrival(at_s, prompt_tokens, output_tokens, sequences=sequences)


def _parse(text: str) -> _Line:
    try:
        line = _decode(text)
    except msgspec.MsgspecError as error:
        raise BadLineError(str(error)) from error
    seconds(line.arrived_wall_s, "arrived_wall_s")
    return line


def _is_wanted(line: _Line) -> bool:
    return line.attempt == 0 and line.route in _ROUTES and line.outcome not in _WRONG


def _clock(lines: Sequence[_Line]) -> Callable[[_Line], float]:
    """The one that never jumps, unless the gateway was started anew in between."""
    starts = [line.arrived_wall_s - line.offset_s for line in lines]
    if starts and max(starts) - min(starts) > _SAME_START_S:
        return attrgetter("arrived_wall_s")
    return attrgetter("offset_s")


@dataclass(slots=True)
class _Sizes:
    """Tokens of a line: told, or made up from what its neighbours say. Of output those of one
    sequence."""

    prompt_bytes_per_token: float = _PROMPT_BYTES_PER_TOKEN
    answer_bytes_per_token: dict[tuple[str, bool], float] = field(default_factory=dict)
    answered: list[tuple[int, int, int]] = field(default_factory=list)

    @classmethod
    def learned_from(cls, lines: Sequence[_Line]) -> _Sizes:
        sizes = cls()
        told = [line for line in lines if line.prompt_tokens]
        if counted := sum(line.prompt_tokens or 0 for line in told):
            sizes.prompt_bytes_per_token = sum(line.sent_bytes for line in told) / counted
        sizes._learn_answers(lines)
        sizes.answered = [
            (sizes._prompt(line), sizes._answered(line), line.sequences)
            for line in lines
            if line.outcome == "ok"
        ]
        return sizes

    def of(self, line: _Line, rng: random.Random) -> tuple[int, int, int]:
        """Tokens of prompt and output, and how many sequences."""
        if not line.is_measured and self.answered:
            return rng.choice(self.answered)
        return self._prompt(line), self._output(line, rng), line.sequences

    def _prompt(self, line: _Line) -> int:
        if line.prompt_tokens is not None:
            return line.prompt_tokens
        return max(1, round(line.sent_bytes / self.prompt_bytes_per_token))

    def _output(self, line: _Line, rng: random.Random) -> int:
        if line.outcome == "ok" or line.output_tokens is not None:
            return self._answered(line)
        if line.max_tokens is not None:
            return max(1, line.max_tokens)
        return rng.choice(self.answered)[1] if self.answered else 1

    def _learn_answers(self, lines: Sequence[_Line]) -> None:
        sums: defaultdict[tuple[str, bool], list[int]] = defaultdict(lambda: [0, 0])
        for line in lines:
            if line.outcome == "ok" and line.output_tokens:
                sums[line.way][0] += line.response_bytes
                sums[line.way][1] += line.output_tokens
        self.answer_bytes_per_token = {way: size / count for way, (size, count) in sums.items()}

    def _answered(self, line: _Line) -> int:
        if line.output_tokens is not None:
            return max(1, round(line.output_tokens / line.sequences))
        usual = _EVENT_BYTES if line.stream else _ANSWER_BYTES_PER_TOKEN
        guessed = line.response_bytes / self.answer_bytes_per_token.get(line.way, usual)
        guess = round(guessed / line.sequences)
        return max(1, guess if line.max_tokens is None else min(guess, line.max_tokens))


def _notes(read: Sequence[_Line], wanted: Sequence[_Line], sizes: _Sizes) -> Iterator[str]:
    left = Counter(_why_left_out(line) for line in read if not _is_wanted(line))
    for why, count in sorted(left.items()):
        yield f"{count} {why} left out"
    if made_up := sum(line.prompt_tokens is None for line in wanted):
        yield (
            f"the prompt tokens of {made_up} requests are estimates, "
            f"at {sizes.prompt_bytes_per_token:.1f} bytes a token"
        )
    if made_up := sum(line.output_tokens is None for line in wanted):
        yield f"the output tokens of {made_up} requests are estimates"
    if wide := sum(line.seats > 1 for line in wanted):
        yield f"{wide} requests for several sequences are played with n, were it several prompts"


def _why_left_out(line: _Line) -> str:
    if line.attempt:
        return "retries (the replay's clients retry by themselves)"
    if line.route not in _ROUTES:
        return "requests that generate nothing"
    return "requests that were wrong"

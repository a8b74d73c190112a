"""What an answer says while it comes: when its tokens came, how many, whether it is whole.

Nothing is kept of the text. Each piece of the body costs one decoding of what is looked at and one
time, since one process reads thousands of streams: see docs/replay.md for figures.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Protocol

import msgspec

from proxy.openai_api.usage import Usage, UsageTail

if TYPE_CHECKING:
    from collections.abc import Callable


class Answer(Protocol):
    """`take` has the form of proxy/upstream/port.py; the rest holds once it has seen the end."""

    first_byte_s: float | None

    def take(self, data: bytes, is_last: bool) -> bool: ...

    @property
    def is_whole(self) -> bool: ...

    @property
    def token_times(self) -> array[float] | None: ...

    @property
    def prompt_tokens(self) -> int | None: ...

    @property
    def output_tokens(self) -> int: ...


_NOTHING = msgspec.Raw()
_LONGEST_EMPTY = len("null")


class _Delta(msgspec.Struct, gc=False):
    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: msgspec.Raw = _NOTHING

    @property
    def has_text(self) -> bool:
        """The first event of a chat only says whose turn it is."""
        if self.content or self.reasoning or self.reasoning_content:
            return True
        return len(self.tool_calls) > _LONGEST_EMPTY


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Counts(msgspec.Struct, gc=False):
    prompt_tokens: int = 0
    completion_tokens: int | None = None


class _Event(msgspec.Struct, gc=False):
    choices: list[_Choice] = []
    usage: _Counts | None = None
    error: msgspec.Raw = _NOTHING


_decode = msgspec.json.Decoder(_Event).decode


class StreamedAnswer:
    """Server-sent events of a chat or a completion of so many `sequences`, whose events come mixed.
    `clock` gives seconds since the start. Token times are those of the first sequence."""

    __slots__ = (
        "_clock",
        "_counts",
        "_finished",
        "_others",
        "_rest",
        "_sequences",
        "_times",
        "broken",
        "first_byte_s",
        "first_event_s",
    )

    def __init__(self, clock: Callable[[], float], sequences: int = 1) -> None:
        self._clock = clock
        self._sequences = sequences
        self._rest = b""
        self._times = array("d")
        self._others = 0
        self._counts: _Counts | None = None
        self._finished = 0
        self.broken = False
        """The server said in an event that it failed."""
        self.first_byte_s: float | None = None
        self.first_event_s: float | None = None

    def take(self, data: bytes, is_last: bool) -> bool:  # noqa: ARG002 - the port's signature
        now_s = self._clock()
        if self.first_byte_s is None and data:
            self.first_byte_s = now_s
        if self._rest:
            data = self._rest + data
        lines = data.split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            if line[:5] == b"data:":
                self._event(line[5:], now_s)
        return True

    def _event(self, payload: bytes, now_s: float) -> None:
        try:
            event = _decode(payload)
        except msgspec.MsgspecError:
            if payload.strip() == b"[DONE]":
                self._finished = self._sequences
            return
        if len(event.error) > _LONGEST_EMPTY:
            self.broken = True
        if event.usage is not None:
            self._counts = event.usage
        for choice in event.choices:
            self._choice(choice, now_s)

    def _choice(self, choice: _Choice, now_s: float) -> None:
        goes_on = choice.finish_reason is None
        if not goes_on:
            self._finished += 1
        delta = choice.delta
        if delta is None or delta.has_text or (delta.role is None and goes_on):
            if choice.index:
                self._others += 1
            else:
                self._times.append(now_s)

    @property
    def is_whole(self) -> bool:
        return self._finished >= self._sequences and not self.broken

    @property
    def token_times(self) -> array[float] | None:
        return self._times

    @property
    def prompt_tokens(self) -> int | None:
        return None if self._counts is None else self._counts.prompt_tokens

    @property
    def output_tokens(self) -> int:
        if self._counts is not None and self._counts.completion_tokens is not None:
            return self._counts.completion_tokens
        return len(self._times) + self._others


class WholeAnswer:
    """An answer in one piece: it has a length and an end, and no times in between."""

    __slots__ = ("_clock", "_tail", "_usage", "first_byte_s", "is_whole")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tail = UsageTail()
        self._usage: Usage | None = None
        self.first_byte_s: float | None = None
        self.is_whole = False

    def take(self, data: bytes, is_last: bool) -> bool:
        if self.first_byte_s is None and data:
            self.first_byte_s = self._clock()
        self._tail.feed(data)
        if is_last:
            self._usage = self._tail.usage()
            self.is_whole = True
        return True

    @property
    def token_times(self) -> array[float] | None:
        return None

    @property
    def prompt_tokens(self) -> int | None:
        return None if self._usage is None else self._usage.prompt_tokens

    @property
    def output_tokens(self) -> int:
        return 0 if self._usage is None else self._usage.completion_tokens

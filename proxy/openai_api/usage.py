"""Reads the token counts that the engine puts at the end of an answer.

vLLM writes `usage` behind everything that the model said: as one of the last fields of a JSON
body, in the last event of a stream that asked for it. So the last bytes are enough, and the answer
is never held. In what the model said the name cannot occur as it does here: inside a JSON string
its quotes are escaped.

The names are those of the OpenAI routes (`prompt_tokens`, `completion_tokens`) and of
/v1/responses and /v1/messages (`input_tokens`, `output_tokens`).
"""

from __future__ import annotations

import json
import re

import msgspec

TAIL_BYTES = 4096
"""`usage` with its details takes 200 bytes, what vLLM writes after it as much again."""

_USAGE = re.compile(rb'"usage"[ \t\r\n]*:[ \t\r\n]*(?=\{)')
_decode_first = json.JSONDecoder().raw_decode
# What no engine counts up to is no count.
_MOST_TOKENS = 2**31 - 1


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one answer: of all its prompts, each counted once, and of all its choices."""

    prompt_tokens: int
    completion_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class UsageTail:
    """The last bytes of one answer. Nothing is looked at before usage() is called."""

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        self._tail = b""

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes of the body, cut anywhere; costs one slice."""
        if len(chunk) < TAIL_BYTES:
            chunk = self._tail + chunk
        self._tail = chunk[-TAIL_BYTES:]

    def usage(self) -> Usage | None:
        """None when the answer does not say, or not in a way that can be read here.

        Of an answer that broke off it is what had been said by then: a stream that tells its usage
        all along has told its prompt, and a part of its output.
        """
        for found in reversed(list(_USAGE.finditer(self._tail))):
            usage = _read(self._tail[found.end() :])
            if usage is not None:
                return usage
        return None


def _read(tail: bytes) -> Usage | None:
    """The object at the beginning of `tail`; whatever follows it does not matter."""
    try:
        # Keys and numbers are ASCII, and text in any encoding is skipped as well in this one.
        counts, _ = _decode_first(tail.decode("latin-1"))
    except (ValueError, RecursionError):
        return None
    prompt = _count(counts, "prompt_tokens", "input_tokens")
    if prompt is None:
        return None
    completion = _count(counts, "completion_tokens", "output_tokens")
    if completion is None:
        completion = max((_count(counts, "total_tokens") or 0) - prompt, 0)
    return Usage(prompt, completion)


def _count(counts: dict[str, object], *names: str) -> int | None:
    for name in names:
        value = counts.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
            return value
    return None

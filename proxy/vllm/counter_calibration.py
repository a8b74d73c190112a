"""Pairs of prompt bytes and prompt tokens from the engine's own counter.

Streams tell their usage only when the client asks for it, and few do. But the engine counts all
prompt tokens, and we have the bytes of all prompts:

    bytes of a prompt  = B / P        tokens of a prompt = (C - K) / P

over a window of P prompts that nobody counted for us (B bytes), in which the engine's counter rose
by C, K of them for prompts whose tokens are known. The window's edges are blurred, since a prompt
is counted here when its answer is over: hence windows of many prompts. Whoever reaches the engine
past the gateway is counted as ours; what that makes implausible is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from proxy.openai_api.measure import Measured
    from proxy.openai_api.usage import Usage

WINDOW_PROMPTS = 64

# Nothing but a long template before a short prompt makes more tokens than bytes.
_MOST_TOKENS_PER_BYTE = 1.0


class MeanPrompt(NamedTuple):
    prompt_bytes: float
    prompt_tokens: float


class CounterCalibration:
    """Of one engine."""

    __slots__ = ("_bytes", "_counter", "_counter_at_start", "_known_prompts", "_known_tokens",
                 "_prompts")  # fmt: skip

    def __init__(self) -> None:
        self._counter_at_start: float | None = None
        self._counter = 0.0
        self._begin()

    def _begin(self) -> None:
        self._prompts = self._bytes = self._known_prompts = self._known_tokens = 0

    def finished(self, measured: Measured, usage: Usage | None) -> None:
        """An answer is over, complete or not, whose prompt the engine has read."""
        width = max(measured.seats // measured.prompts, 1)
        prompts = width * measured.prompts
        known = usage.prompt_tokens if usage is not None else measured.prompt_token_ids
        if known is not None:
            self._known_prompts += prompts
            self._known_tokens += width * known
        else:
            self._prompts += prompts
            self._bytes += width * measured.prompt_bytes

    def reading(self, prompt_tokens_total: float | None) -> MeanPrompt | None:
        """Takes the engine's counter as it was just read; None is no reading. Gives a pair at the
        end of a window that tells something."""
        if prompt_tokens_total is None:
            return None
        if self._counter_at_start is None or prompt_tokens_total < self._counter:  # a new engine
            self._start_at(prompt_tokens_total)
            return None
        self._counter = prompt_tokens_total
        if self._prompts + self._known_prompts < WINDOW_PROMPTS:
            return None
        pair = self._pair(prompt_tokens_total - self._counter_at_start)
        self._start_at(prompt_tokens_total)
        return pair

    def _start_at(self, counter: float) -> None:
        self._counter_at_start = self._counter = counter
        self._begin()

    def _pair(self, counted: float) -> MeanPrompt | None:
        tokens = counted - self._known_tokens
        if self._prompts <= self._known_prompts:  # those teach better
            return None
        if not 0 < tokens <= self._bytes * _MOST_TOKENS_PER_BYTE:
            return None
        return MeanPrompt(self._bytes / self._prompts, tokens / self._prompts)

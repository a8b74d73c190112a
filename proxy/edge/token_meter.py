"""Tokens of the requests that pass: estimated before the engine has them, learned from its answers.

There is one only where a token limit is set: nothing else needs the figures, and they cost some
microseconds a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from proxy.openai_api.token_estimate import TokenEstimate, certainly_exceeds
from proxy.openai_api.usage import UsageTail

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.admission.permit import Permit
    from proxy.openai_api.measure import Measured
    from proxy.openai_api.usage import Usage


class AnswerReader(Protocol):
    """Reads one answer along while it passes."""

    def feed(self, chunk: bytes) -> None: ...

    def ended(self, is_complete: bool) -> Usage | None:
        """What the engine said that it had counted. Called once, and for answers only."""


class UsageReader:
    """For a trace, where nothing is estimated."""

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        self._tail = UsageTail()

    def feed(self, chunk: bytes) -> None:
        self._tail.feed(chunk)

    def ended(self, is_complete: bool) -> Usage | None:
        return self._tail.usage() if is_complete else None


class TokenMeter:
    """`model_len` gives the longest request that the engine takes, in tokens, once it is known.

    `answered` is called with every request whose prompt an engine has read, with the name of that
    engine, and with the usage that it told, if it did.
    """

    def __init__(
        self,
        model_len: Callable[[], int | None],
        answered: Callable[[str, Measured, Usage | None], None],
    ) -> None:
        self.estimate = TokenEstimate()
        self._model_len = model_len
        self._answered = answered

    def tokens(self, measured: Measured) -> tuple[int, int]:
        """The estimates for prompt tokens and for KV tokens."""
        model_len = self._model_len()
        return (
            self.estimate.prompt_tokens(measured, model_len),
            self.estimate.kv_tokens(measured, model_len),
        )

    def exceeded_length(self, measured: Measured) -> int | None:
        """The model length that the prompt exceeds for certain; None when it may fit."""
        model_len = self._model_len()
        if model_len is None or not certainly_exceeds(measured, model_len):
            return None
        return model_len

    def follow(self, measured: Measured, permit: Permit) -> FollowedAnswer:
        """For one answer, from its first byte to its last."""
        return FollowedAnswer(self, measured, permit)

    def learn(
        self, upstream: str, measured: Measured, usage: Usage | None, is_complete: bool
    ) -> None:
        if is_complete and usage is not None:
            self.estimate.learn(measured, usage)
        self._answered(upstream, measured, usage)


class FollowedAnswer:
    """Sees the chunks of one answer pass."""

    __slots__ = ("_has_begun", "_measured", "_meter", "_permit", "_tail")

    def __init__(self, meter: TokenMeter, measured: Measured, permit: Permit) -> None:
        self._meter = meter
        self._measured = measured
        self._permit = permit
        self._tail = UsageTail()
        self._has_begun = False

    def feed(self, chunk: bytes) -> None:
        if not self._has_begun and chunk:
            self._has_begun = True
            self._permit.first_byte()
        self._tail.feed(chunk)

    def ended(self, is_complete: bool) -> Usage | None:
        if not self._has_begun:
            return None
        usage = self._tail.usage() if is_complete else None
        self._meter.learn(self._permit.upstream, self._measured, usage, is_complete)
        return usage

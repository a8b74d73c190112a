"""One client request in the engine: its sequences, what they say, and what its handler awaits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.simulator.engine import EngineDeadError
from proxy.simulator.sequence import FinishReason, Sequence

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from proxy.simulator.text import Answer, Stop


class GenerationAbortedError(Exception):
    """The client has left; nobody waits for an answer."""


class StreamBrokenError(Exception):
    """A fault breaks the stream off here."""


@dataclass(slots=True, eq=False)
class Output:
    """One sequence and its text. `told_tokens` is how far a stream has told it."""

    sequence: Sequence
    answer: Answer
    stop: Stop | None = None
    told_tokens: int = 0

    @property
    def text(self) -> str:
        """All that was said so far."""
        return self._text(0, self.sequence.generated)

    @property
    def finish_reason(self) -> str | None:
        reason = self.sequence.finish_reason
        return None if reason is None else reason.value

    @property
    def stop_reason(self) -> str | None:
        """The stop string that ended it."""
        stopped = self.sequence.finish_reason is FinishReason.STOP
        return self.stop.string if stopped and self.stop is not None else None

    def delta(self) -> str:
        """What was said since the last call."""
        begin, self.told_tokens = self.told_tokens, self.sequence.generated
        return self._text(begin, self.told_tokens)

    def _text(self, begin: int, end: int) -> str:
        if self.stop is None:
            return self.answer.text(begin, end)
        told = len(self.answer.text(0, begin))
        return self.stop.text[told : len(self.answer.text(0, end))]


class Generation:
    """Outputs of one request, `n` for each prompt, and a place to wait for them, for one waiter.

    Waiting raises EngineDeadError when the engine dies, and GenerationAbortedError after abort().
    """

    __slots__ = (
        "_abort",
        "_fresh",
        "_left",
        "_n",
        "_waiter",
        "aborted",
        "dead",
        "outputs",
        "reset_after",
    )

    def __init__(
        self,
        outputs: list[Output],
        abort: Callable[[Generation], None],
        n: int = 1,
        reset_after: int | None = None,
    ) -> None:
        self.outputs = outputs
        self.aborted = False
        self.dead = False
        self.reset_after = reset_after
        """Tokens after which a fault breaks the stream off."""
        self._abort = abort
        self._n = n
        self._left = len(outputs)
        self._fresh: dict[int, None] = {}
        self._waiter: asyncio.Future[None] | None = None

    @property
    def prompt_tokens(self) -> int:
        """Of all prompts together; a prompt that is answered `n` times counts once."""
        return sum(output.sequence.prompt_tokens for output in self.outputs[:: self._n])

    @property
    def completion_tokens(self) -> int:
        """Of all outputs together."""
        return sum(output.sequence.generated for output in self.outputs)

    @property
    def finished(self) -> bool:
        return self._left == 0

    def abort(self) -> None:
        """The client has left: frees what the engine holds for it. Harmless when it is over."""
        if not (self.finished or self.aborted or self.dead):
            self.aborted = True
            self._abort(self)
            self._wake()

    async def done(self) -> None:
        """Waits until every output is finished."""
        while self._left:
            await self._news()

    async def deltas(self) -> AsyncIterator[tuple[int, Output]]:
        """Outputs that have something new to tell, by index, until all are finished.

        Raises StreamBrokenError when a fault wants the stream to end here.
        """
        while self._left or self._fresh:
            if not self._fresh:
                await self._news()
            fresh, self._fresh = self._fresh, {}
            for index in fresh:
                yield index, self.outputs[index]
            if self.reset_after is not None and self._told() >= self.reset_after:
                raise StreamBrokenError

    def advanced(self, index: int) -> None:
        """The engine says: this output has something new."""
        self._fresh[index] = None
        self._wake()

    def one_finished(self) -> None:
        """The engine says: one more output has ended."""
        self._left -= 1
        if not self._left:
            self._wake()

    def engine_died(self) -> None:
        self.dead = True
        self._wake()

    def _told(self) -> int:
        return sum(output.told_tokens for output in self.outputs)

    async def _news(self) -> None:
        if not (self.aborted or self.dead):
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self.aborted:
            raise GenerationAbortedError
        if self.dead:
            raise EngineDeadError

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

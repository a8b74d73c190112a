"""An Upstream that answers from a script, for the clients of a replay in virtual time."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from proxy.replay.client.requester import Patience, Requester
from proxy.replay.client.retry_rules import PROFILES
from proxy.replay.client.tally import Tally
from proxy.replay.request_times import Objective
from proxy.upstream.errors import UpstreamConnectError, UpstreamError
from proxy.upstream.port import pass_by_reading
from tests.support.virtual_time import now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from proxy.upstream.port import RawHeaders, Room, Take, UpstreamRequest

EVENT_STREAM: RawHeaders = [(b"Content-Type", b"text/event-stream; charset=utf-8")]


def event(**fields: Any) -> bytes:  # noqa: ANN401 - JSON
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def word(text: str = " word", finish: str | None = None) -> bytes:
    return event(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": finish}])


ROLE = event(choices=[{"index": 0, "delta": {"role": "assistant", "content": ""}}])
DONE = b"data: [DONE]\n\n"


def usage(prompt: int, output: int) -> bytes:
    return event(choices=[], usage={"prompt_tokens": prompt, "completion_tokens": output})


def chat(tokens: int, prompt_tokens: int = 100) -> list[bytes]:
    """A whole stream."""
    words = [word() for _ in range(tokens - 1)]
    return [ROLE, *words, word(finish="length"), usage(prompt_tokens, tokens), DONE]


@dataclass
class Scripted:
    """One answer: after `wait_s` its head, then each piece after `gap_s`; then, maybe, an error."""

    status: int = 200
    headers: RawHeaders = field(default_factory=lambda: list(EVENT_STREAM))
    pieces: list[bytes] = field(default_factory=lambda: chat(3))
    wait_s: float = 0.0
    gap_s: float = 0.0
    error: UpstreamError | None = None
    is_exhausted: bool = False
    is_readable: bool = False

    async def read(self) -> bytes:
        if self.pieces:
            await asyncio.sleep(self.gap_s)
            return self.pieces.pop(0)
        if self.error is not None:
            raise self.error
        return b""

    async def pass_to(self, take: Take, room: Room) -> None:
        await pass_by_reading(self, take, room)


def refusal(status: int = 503, code: str | int = "queue_full", **headers: str) -> Scripted:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Scripted(status, raw, [json.dumps({"error": {"code": code}}).encode()])


class ScriptedPort:
    """`answer` is called with each request, in the order in which they come."""

    def __init__(self, answer: Callable[[UpstreamRequest], Scripted | None]) -> None:
        self._answer = answer
        self.seen: list[UpstreamRequest] = []
        self.running = self.peak = 0

    @asynccontextmanager
    async def exchange(self, request: UpstreamRequest) -> AsyncIterator[Scripted]:
        self.seen.append(request)
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            answer = self._answer(request)
            if answer is None:
                raise UpstreamConnectError("refused")
            await asyncio.sleep(answer.wait_s)
            yield answer
        finally:
            self.running -= 1

    async def aclose(self) -> None: ...


def in_turn(*answers: Scripted | None) -> ScriptedPort:
    left = list(answers)
    return ScriptedPort(lambda _request: left.pop(0))


def requester(upstream: ScriptedPort, tally: Tally | None = None, **patience: Any) -> Requester:  # noqa: ANN401 - fields of Patience
    return Requester(
        upstream,
        b"/v1/chat/completions",
        [(b"host", b"engine")],
        lambda arrival, number: b"%d %d" % (arrival.prompt_tokens, number),
        Patience(PROFILES["openai-python"], **patience),
        tally or Tally(Objective()),
        random.Random(1),
        now,
        lambda: 0.0,
    )

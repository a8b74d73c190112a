"""Ready-made handlers for the scripted upstream."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tests.support.scripted_exchange import Exchange, Pair

    Handler = Callable[[Exchange], Awaitable[None]]


def json_answer(body: object = None, status: int = 200, headers: Sequence[Pair] = ()) -> Handler:
    """Answers every request with the same JSON."""
    raw = json.dumps({"ok": True} if body is None else body).encode()

    async def answer(exchange: Exchange) -> None:
        exchange.respond(raw, status, headers)

    return answer


def sse_stream(events: int, interval_s: float = 0.0, done: bool = True) -> Handler:
    """Streams `data: {"n": 0}` and so on, one chunk each, then `data: [DONE]`."""

    async def answer(exchange: Exchange) -> None:
        exchange.start_chunked()
        for number in range(events):
            exchange.chunk(b'data: {"n": %d}\n\n' % number)
            await exchange.drain()
            await asyncio.sleep(interval_s)
        if done:
            exchange.chunk(b"data: [DONE]\n\n")
        exchange.end_chunked()

    return answer


@dataclass
class Hold:
    """Holds every request until `release()`, then answers it with `then`; new ones pass.

    `start` sends a streaming head and one event before it holds.
    """

    then: Handler = field(default_factory=json_answer)
    start: bool = False

    def __post_init__(self) -> None:
        self._open = asyncio.Event()

    def release(self) -> None:
        self._open.set()

    def hold_again(self) -> None:
        self._open.clear()

    async def __call__(self, exchange: Exchange) -> None:
        if self.start:
            exchange.start_chunked()
            exchange.chunk(b'data: {"n": 0}\n\n')
        await self._open.wait()
        if self.start:
            exchange.chunk(b"data: [DONE]\n\n")
            exchange.end_chunked()
        else:
            await self.then(exchange)


def raw_answer(raw: bytes, then: Literal["return", "close", "reset", "hold"] = "return") -> Handler:
    """Puts `raw` on the wire, valid or not, and then ends the answer as told.

    "return" keeps the connection for the next request; "hold" never finishes the answer.
    """

    async def answer(exchange: Exchange) -> None:
        exchange.send(raw)
        if then == "close":
            exchange.close()
        elif then == "reset":
            await asyncio.sleep(0.02)  # an RST at once would overtake what was sent
            exchange.reset()
        elif then == "hold":
            await silent(exchange)

    return answer


async def silent(_exchange: Exchange) -> None:
    """Never answers."""
    await asyncio.Event().wait()


async def close_on_receipt(exchange: Exchange) -> None:
    """FIN instead of an answer."""
    exchange.close()


async def reset_on_receipt(exchange: Exchange) -> None:
    """RST instead of an answer."""
    exchange.reset()


async def unauthorized(exchange: Exchange) -> None:
    """vLLM's own 401, whose error is a string."""
    exchange.respond(b'{"error":"Unauthorized"}', 401)


async def empty_ok(exchange: Exchange) -> None:
    exchange.respond(b"", 200, content_type=None)


async def not_found(exchange: Exchange) -> None:
    exchange.respond(b'{"detail":"Not Found"}', 404)

"""The engine of the matrix: it stops in the middle of an answer, and then does what it is told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.faults.matrix import Point
from tests.support.scripted_exchange import head
from tests.support.scripted_upstream import ScriptedUpstream

if TYPE_CHECKING:
    from tests.support.scripted_exchange import Connection, Exchange

_EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n'
_DONE = b"data: [DONE]\n\n"
_JSON = b'{"choices": [{"index": 0, "text": "x"}]}'
_SEND_BUFFER_BYTES = 64 * 1024
_PIECE = b"x" * 65_536
GREETING = b"SSH-2.0-OpenSSH_9.6\r\n\r\n"


@dataclass(frozen=True)
class Answer:
    """The bytes on the wire, in four parts, and the body that a client should have of them."""

    head: bytes
    first: bytes
    middle: bytes
    end: bytes
    body: bytes

    def until(self, point: Point) -> bytes:
        match point:
            case Point.HEADERS:
                return self.head
            case Point.BETWEEN:
                return self.head + self.first
            case Point.LAST:
                return self.head + self.first + self.middle
            case _:
                return b""

    @property
    def whole(self) -> bytes:
        return self.head + self.first + self.middle + self.end


def answer(*, stream: bool, chunked: bool = False) -> Answer:
    """An event stream in chunks, or JSON with a length, or in chunks if that is wanted."""
    if stream:
        parts = [_EVENT, _EVENT + _DONE]
        typed = ("content-type", "text/event-stream; charset=utf-8")
    else:
        parts = [_JSON[:10], _JSON[10:]]
        typed = ("content-type", "application/json")
    body = b"".join(parts)
    if stream or chunked:
        first, middle = map(_chunk, parts)
        framing = ("transfer-encoding", "chunked")
        return Answer(head(200, [typed, framing]), first, middle, b"0\r\n\r\n", body)
    framing = ("content-length", str(len(body)))
    return Answer(head(200, [typed, framing]), parts[0], parts[1][:-1], body[-1:], body)


def endless_answer(*, stream: bool) -> Answer:
    """The beginning of one; flood() goes on with it."""
    if stream:
        fields = [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]
        return Answer(head(200, fields), _chunk(_EVENT), b"", b"", _EVENT)
    fields = [("content-type", "application/json"), ("content-length", str(1 << 40))]
    return Answer(head(200, fields), _EVENT, b"", b"", _EVENT)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


# How an answer goes on that has come so far.

Ending = Callable[["Exchange", Answer, Point], Awaitable[None]]


async def finish(exchange: Exchange, said: Answer, at: Point) -> None:
    exchange.send(said.whole[len(said.until(at)) :])


async def flood(exchange: Exchange, said: Answer, at: Point) -> None:
    """Without end, as fast as it is read."""
    exchange.send((said.head + said.first)[len(said.until(at)) :])
    piece = _chunk(_PIECE) if b"chunked" in said.head else _PIECE
    while True:
        exchange.send(piece)
        await exchange.drain()


async def reset(exchange: Exchange, _said: Answer, _at: Point) -> None:
    exchange.reset()


async def close(exchange: Exchange, _said: Answer, _at: Point) -> None:
    exchange.close()


async def fall_silent(_exchange: Exchange, _said: Answer, _at: Point) -> None:
    await asyncio.Event().wait()


async def talk_nonsense(exchange: Exchange, _said: Answer, at: Point) -> None:
    exchange.send(GREETING if at is Point.SENT else b"zz\r\n")
    await asyncio.Event().wait()


async def say_too_much(exchange: Exchange, said: Answer, at: Point) -> None:
    exchange.send(said.whole[len(said.until(at)) :] + said.whole)


async def say_too_little(exchange: Exchange, said: Answer, at: Point) -> None:
    rest = said.whole[len(said.until(at)) :]
    exchange.send(rest[: len(rest) // 2] if at is not Point.SENT else said.head[:-20])
    exchange.close()


async def dribble(exchange: Exchange, said: Answer, at: Point) -> None:
    await exchange.dribble(said.whole[len(said.until(at)) :])


@dataclass
class Script:
    """What the engine does in one scene: requests that carry the id of one of those that are
    `held` are answered up to a point and wait for the order; all others are answered at once."""

    held: dict[str, tuple[Point, Answer]]
    arrived: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._orders: dict[str, asyncio.Future[Ending]] = {
            name: asyncio.get_running_loop().create_future() for name in self.held
        }

    def order(self, ending: Ending, *names: str) -> None:
        """How the answers to these end, whether they are there by now or not."""
        for name in names:
            self._orders[name].set_result(ending)

    async def __call__(self, exchange: Exchange) -> None:
        name = exchange.request.client_id or ""
        if name in self._orders and name not in self.arrived:
            self.arrived.add(name)
            at, said = self.held[name]
            exchange.send(said.until(at))
            ending = await self._orders[name]
            await ending(exchange, said, at)
        else:
            exchange.send(answer(stream=False).whole)


class MatrixEngine(ScriptedUpstream):
    """Can also do something to every connection as it is made."""

    greet: Callable[[Connection], None] | None = None

    def connection_opened(self, connection: Connection) -> int:
        number = super().connection_opened(connection)
        raw = connection.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        if self.greet is not None:
            self.greet(connection)
        return number

    @property
    def is_listening(self) -> bool:
        return self._server is not None

    @property
    def connections(self) -> list[Connection]:
        return list(self._live)


def reset_connection(connection: Connection) -> None:
    connection.reset()


def close_connection(connection: Connection) -> None:
    connection.transport.close()


def say(data: bytes) -> Callable[[Connection], None]:
    def saying(connection: Connection) -> None:
        connection.transport.write(data)

    return saying


def say_and_close(data: bytes) -> Callable[[Connection], None]:
    def saying(connection: Connection) -> None:
        connection.transport.write(data)
        connection.transport.close()

    return saying

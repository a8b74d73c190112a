"""What a client does with one request: mostly what it should, and every way to do it badly."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tests.soak import asked
from tests.soak.wire import connect

if TYPE_CHECKING:
    from tests.soak.wire import Answer, Wire

# Longer than any request may take: queue, silence of the engine, total, and a machine that is busy.
PATIENCE_S = 60.0
_MANY = 12


class Hung(Exception):
    """Nothing came in all that time."""


def verdict(answer: Answer, *, asked_for_stream: bool) -> str:
    """What a client can make of it. Those that begin with `!` it must never see."""
    if not answer.status:
        return "!no answer"
    if answer.status in (429, 503):
        if not answer.is_whole:
            return "!a refusal in part"
        return "refused" if answer.has_retry_after else "!refused without Retry-After"
    if answer.status >= 400:
        return f"error {answer.status}" if answer.is_whole else "!an error in part"
    if not answer.is_whole:
        return "broken off"
    if asked_for_stream:
        if b"data: [DONE]" not in answer.tail:
            return "!an end without [DONE]"
        # The engine says so itself, and ends in good order: that is passed on as it is.
        return "the engine's own error" if answer.has_error_event else "ok"
    return "ok" if answer.tail.endswith(b"}") else "!an end in the middle of the JSON"


async def over(wire: Wire, patience_s: float = PATIENCE_S) -> None:
    assert wire.over is not None
    try:
        await asyncio.wait_for(wire.over, patience_s)
    except TimeoutError:
        raise Hung from None


async def well(wire: Wire, rng: random.Random) -> str:
    stream = rng.random() < 0.5
    wire.expect()
    wire.transport.write(asked.request(rng, stream=stream))
    await over(wire)
    return verdict(wire.answer, asked_for_stream=stream)


async def in_pieces(wire: Wire, rng: random.Random) -> str:
    """A slow writer, who gets there."""
    wire.expect()
    whole = asked.padded(rng)
    step = len(whole) // 5 + 1
    for begin in range(0, len(whole), step):
        if wire.is_closed:
            break
        wire.transport.write(whole[begin : begin + step])
        await asyncio.sleep(rng.uniform(0, 0.5))
    await over(wire)
    return verdict(wire.answer, asked_for_stream=False)


async def in_sips(wire: Wire, rng: random.Random) -> str:
    """A slow reader, who gets there."""
    wire.expect()
    wire.transport.write(asked.request(rng, stream=True))
    for _ in range(_MANY):
        wire.transport.pause_reading()
        await asyncio.sleep(rng.uniform(0, 0.3))
        wire.transport.resume_reading()
        if wire.over is None or wire.over.done():
            break
    await over(wire)
    return verdict(wire.answer, asked_for_stream=True)


def _leave(wire: Wire, rng: random.Random) -> None:
    (wire.close if rng.random() < 0.5 else wire.reset)()


async def leave_in_the_request(wire: Wire, rng: random.Random) -> None:
    """In its head or its body."""
    whole = asked.padded(rng) if rng.random() < 0.5 else asked.request(rng, stream=True)
    wire.transport.write(whole[: rng.randrange(1, len(whole))])
    await asyncio.sleep(rng.uniform(0, 0.2))
    _leave(wire, rng)


async def leave_at_once(wire: Wire, rng: random.Random) -> None:
    wire.transport.write(asked.request(rng, stream=rng.random() < 0.5))
    await asyncio.sleep(0)
    _leave(wire, rng)


async def leave_while_waiting(wire: Wire, rng: random.Random) -> None:
    """In the queue, or before the engine's first byte, or soon after it."""
    wire.expect()
    wire.transport.write(asked.request(rng, stream=rng.random() < 0.5))
    await asyncio.sleep(rng.uniform(0, 2.5))
    _leave(wire, rng)


async def leave_in_the_answer(wire: Wire, rng: random.Random) -> None:
    wire.leave_after_pieces = rng.randint(1, _MANY)
    wire.expect()
    wire.transport.write(asked.request(rng, stream=True))
    await over(wire)
    _leave(wire, rng)


async def half_close(wire: Wire, rng: random.Random) -> None:
    wire.expect()
    wire.transport.write(asked.request(rng, stream=rng.random() < 0.5))
    await asyncio.sleep(rng.uniform(0, 1))
    if not wire.is_closed:
        wire.transport.write_eof()
        await over(wire)
    wire.close()


async def stop_writing(wire: Wire, rng: random.Random) -> None:
    """The gateway has to end it."""
    wire.expect()
    whole = asked.padded(rng)
    wire.transport.write(whole[: rng.randrange(1, len(whole))])
    await over(wire)
    wire.close()


async def stop_reading(wire: Wire, rng: random.Random) -> None:
    """The gateway has to end it: the answer is more than the kernel keeps."""
    wire.reset()
    slow = await connect(wire.port, receive_buffer=4096)
    slow.transport.write(asked.large_answer())
    slow.transport.pause_reading()
    await asyncio.sleep(rng.uniform(1, 6))
    slow.reset()


async def talk_nonsense(wire: Wire, rng: random.Random) -> None:
    wire.expect()
    wire.transport.write(asked.garbage(rng))
    await asyncio.sleep(rng.uniform(0, 1))
    _leave(wire, rng)


async def send_two(wire: Wire, rng: random.Random) -> None:
    """The second before the first is answered, and gone before the second is."""
    wire.expect()
    wire.transport.write(asked.request(rng, stream=False) + asked.request(rng, stream=True))
    await asyncio.wait_for(asyncio.shield(wire.over or wire.expect()), PATIENCE_S)
    await asyncio.sleep(rng.uniform(0, 1))
    _leave(wire, rng)


Good = Callable[["Wire", random.Random], Awaitable[str]]
Bad = Callable[["Wire", random.Random], Awaitable[None]]

# With how often each is drawn among its like.
GOOD: dict[Good, float] = {well: 0.94, in_pieces: 0.03, in_sips: 0.03}
BAD: dict[Bad, float] = {
    leave_in_the_request: 3,
    leave_at_once: 3,
    leave_while_waiting: 6,
    leave_in_the_answer: 5,
    half_close: 2,
    stop_writing: 1,
    stop_reading: 0.1,
    talk_nonsense: 3,
    send_two: 1,
}

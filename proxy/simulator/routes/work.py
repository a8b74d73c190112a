"""What routes that generate have in common: waiting beside a client that may leave."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from proxy.simulator.engine import EngineDeadError
from proxy.simulator.errors import engine_dead

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from proxy.simulator.exchange import Exchange
    from proxy.simulator.generation import Generation


async def wait_for_all(exchange: Exchange, generation: Generation) -> None:
    """Raises EngineDeadError, and GenerationAbortedError when the client left first."""
    try:
        with exchange.watch(generation.abort):
            await generation.done()
    finally:
        generation.abort()


async def answer_stream(
    exchange: Exchange,
    generation: Generation,
    events: AsyncGenerator[dict[str, Any], None],
) -> None:
    """Sends the head at once, then each event, then `[DONE]`, which follows an error too."""
    try:
        with exchange.watch(generation.abort):
            await exchange.start_events()
            await _send_events(exchange, events)
            await exchange.end_events()
    finally:
        generation.abort()


async def _send_events(exchange: Exchange, events: AsyncGenerator[dict[str, Any], None]) -> None:
    async with aclosing(events):
        try:
            async for event in events:
                await exchange.event(event)
        except EngineDeadError:
            await exchange.event(engine_dead().body())

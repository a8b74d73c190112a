"""A gateway at rest: everything is back where it was, and the seats are exactly as many."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from tests.soak.census import KNOTTED
from tests.soak.pages import LOAD_PATH, PageReader, read_engine
from tests.soak.plan import ENGINES
from tests.support.engine_process import MODEL
from tests.support.raw_client import RawClient, ask_once, request_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.soak.census import Census
    from tests.soak.plan import Plan
    from tests.soak.stand import Stand

# A queue, a silence and a stop of writing may have to run out first.
IDLE_WITHIN_S = 10.0
# Connections to engines are kept for a while.
SETTLES_WITHIN_S = 20.0
_WHOLE_AGAIN_WITHIN_S = 30.0
_SEATED_WITHIN_S = 8.0
_ARRIVAL_S = 0.2
_LOOKS, _LOOKS_EVERY_S = 20, 0.02


async def descriptors_at_rest(made: Stand, wanted: int | None = None) -> int:
    """With no client and no connection to an engine but the poller's, which comes and goes: waits
    until they are as few as `wanted`, for a poll may be long on a busy machine."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLES_WITHIN_S
    while loop.time() < deadline:
        if not any(made.gateway.sockets_towards(one.port) for one in made.engines):
            break
        await asyncio.sleep(_LOOKS_EVERY_S)
    found = await _least(made.gateway.open_descriptors)
    while wanted is not None and found > wanted and loop.time() < deadline + SETTLES_WITHIN_S:
        found = await _least(made.gateway.open_descriptors)
    return found


async def _least(look: Callable[[], int]) -> int:
    found = []
    for _ in range(_LOOKS):
        found.append(look())
        await asyncio.sleep(_LOOKS_EVERY_S)
    return min(found)


async def census_at_rest(made: Stand) -> Census:
    """The least of three looks at each type: the poller is always between two of them."""
    found = []
    for _ in range(3):
        found.append(await made.inside.ask("census"))
        await asyncio.sleep(_ARRIVAL_S)
    return steady(found)


def steady(found: list[Census]) -> Census:
    """What all of them have seen; of knots what the first has, which has undone them."""
    knots = {name: count for name, count in found[0].items() if name.startswith(KNOTTED)}
    least = {name: min(one.get(name, 0) for one in found) for name in found[-1]}
    return {**least, **knots}


async def seats_are_exact(made: Stand, plan: Plan) -> str:
    """As many as there are seats get in, one more waits; "" if so, else what happened instead."""
    sluice, seats = made.gateway, plan.limit * ENGINES
    held = {"model": MODEL, "prompt": "hold", "stream": True, "max_tokens": 20_000}
    request = request_bytes("/v1/completions", {**held, "ignore_eos": True})
    try:
        await _until_whole(made, seats)
        async with AsyncExitStack() as connections:

            async def ask() -> None:
                client = await RawClient.connect(sluice.port)
                await connections.enter_async_context(client)
                client.send(request)

            for _ in range(seats):
                await ask()
            await sluice.until_metric("sluice_in_flight", seats, _SEATED_WITHIN_S)
            await sluice.until_metric("sluice_queue_depth", 0)
            await _until_in_engines(made, seats)
            await ask()
            await sluice.until_metric("sluice_queue_depth", 1)
            await asyncio.sleep(_ARRIVAL_S)
            await sluice.until_metric("sluice_in_flight", seats)
            await _until_in_engines(made, seats)
        await sluice.until_idle(IDLE_WITHIN_S)
    except AssertionError as wrong:
        return f"{wrong}"
    return ""


async def _until_whole(made: Stand, seats: int) -> None:
    """Asks for a token again and again: an engine that was taken out for its failures has one seat
    until a request goes well in it, and after the soak nobody sends one."""
    sluice, loop = made.gateway, asyncio.get_running_loop()
    deadline = loop.time() + _WHOLE_AGAIN_WITHIN_S
    short = request_bytes("/v1/completions", {"model": MODEL, "prompt": "one", "max_tokens": 1})
    while (found := int(await sluice.metric("sluice_concurrency_limit"))) != seats:
        if loop.time() > deadline:
            raise AssertionError(
                f"{found} of {seats} seats are open, after {_WHOLE_AGAIN_WITHIN_S:g} s"
            )
        # In every open seat at once, so that each engine gets one.
        await asyncio.gather(*(ask_once(sluice.port, short) for _ in range(max(1, found))))
        await asyncio.sleep(_ARRIVAL_S)
    await sluice.until_idle(IDLE_WITHIN_S)


async def _until_in_engines(made: Stand, seats: int) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _SEATED_WITHIN_S
    while (running := await _in_engines(made)) != seats:
        if loop.time() > deadline:
            raise AssertionError(f"{running} of {seats} run in the engines")
        await asyncio.sleep(_LOOKS_EVERY_S)


async def _in_engines(made: Stand) -> int:
    requests = 0
    for one in made.engines:
        async with PageReader(one.port, LOAD_PATH) as reader:
            requests += read_engine(await reader.page())
    return requests

"""The capacity probe of every fault test: were permits lost, were some made up?

It is run once the fault is over. All seats must be free and nobody waiting; then as many requests
as there are seats, held in the middle of their answers, must all reach the engine (else a permit
was lost), one more must not (else one was duplicated, or ends too soon), and when they are let go
every one is answered and all is free again.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING

from tests.support.raw_client import RawClient, request_bytes
from tests.support.scripted_upstream import Hold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.gateway_process import GatewayProcess
    from tests.support.scripted_upstream import ScriptedUpstream

# As field reports want it; with nothing else running all of it takes a few milliseconds.
_WITHIN_S = 2.0
# After a recovery of the engine the seats open over 10 s.
_SLOW_START_S = 15.0
# A duplicated permit lets the surplus request through at once; this is for it to arrive.
_ARRIVAL_S = 0.03


async def probe_capacity(
    sluice: GatewayProcess,
    upstream: ScriptedUpstream,
    seats: int,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Raises AssertionError unless exactly `seats` permits exist and all of them are free.

    Needs a waiting place, and a queue timeout of some 100 ms. The requests carry `headers`.
    """
    await sluice.until_idle(_WITHIN_S)
    await upstream.until(lambda: upstream.inflight == 0, _WITHIN_S)
    await sluice.until_metric("sluice_concurrency_limit", seats, within_s=_SLOW_START_S)
    request = request_bytes(headers=dict(headers or {}))
    async with AsyncExitStack() as connections:

        async def asking() -> RawClient:
            client = await RawClient.connect(sluice.port)
            await connections.enter_async_context(client)
            client.send(request)
            return client

        with _holding(upstream) as hold:
            clients = [await asking() for _ in range(seats)]
            await _all_arrive(upstream, seats)
            clients.append(await asking())
            await _surplus_waits(sluice, upstream, seats)
            hold.release()
            answers = await asyncio.gather(*(client.answer() for client in clients))
    assert [answer.status for answer in answers] == [200] * (seats + 1)
    assert all(answer.complete for answer in answers)
    await sluice.until_idle(_WITHIN_S)


@contextmanager
def _holding(upstream: ScriptedUpstream) -> Iterator[Hold]:
    usual, hold = upstream.handler, Hold(start=True)
    upstream.handler = hold
    try:
        yield hold
    finally:
        hold.release()
        upstream.handler = usual


async def _all_arrive(upstream: ScriptedUpstream, seats: int) -> None:
    try:
        await upstream.until(lambda: upstream.inflight == seats, _WITHIN_S)
    except AssertionError as late:
        raise AssertionError(f"a permit was lost: {upstream.inflight} of {seats} run") from late


async def _surplus_waits(sluice: GatewayProcess, upstream: ScriptedUpstream, seats: int) -> None:
    deadline = asyncio.get_running_loop().time() + _WITHIN_S
    while await sluice.metric("sluice_queue_depth") != 1:
        assert upstream.inflight == seats, f"a permit was duplicated: {upstream!r}"
        assert asyncio.get_running_loop().time() < deadline, "the surplus request does not wait"
    await asyncio.sleep(_ARRIVAL_S)
    assert upstream.inflight == seats, f"a permit was duplicated: {upstream!r}"
    assert await sluice.metric("sluice_in_flight") == seats

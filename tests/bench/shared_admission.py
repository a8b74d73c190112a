"""What a request costs whose gateway shares its limit, beside one whose gateway has it alone.

    python -m tests.bench.shared_admission

Both gateways stand in front of the same engine, which answers at once, and are asked in turn over
one connection each: as long as seats are held nobody asks the store, so that there should be no
difference. It prints the median of each round.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from tests.support.gateway_process import gateway
from tests.support.raw_client import RawClient, request_bytes
from tests.support.redis_server import running_redis
from tests.support.scripted_upstream import ScriptedUpstream, empty_ok, json_answer, not_found

ROUNDS = 5
BLOCKS = 20
REQUESTS = 100
PROBES = {b"/health": empty_ok, b"/metrics": not_found, b"/v1/models": not_found}
_REQUEST = request_bytes(body={"model": "m", "prompt": "hello"})


async def main() -> None:
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(running_redis(directory))
        engine = await stack.enter_async_context(ScriptedUpstream(json_answer(), probes=PROBES))
        alone, sharing = [
            await stack.enter_async_context(gateway(engine.url, max_in_flight=32, **settings))
            for settings in ({}, {"redis_url": redis.url})
        ]
        await asyncio.sleep(4)  # until the lease is there
        clients = [
            await stack.enter_async_context(await RawClient.connect(one.port))
            for one in (alone, sharing)
        ]
        print("round  alone_us  sharing_us  ratio")
        ratios = []
        for number in range(ROUNDS + 1):
            first, second = await _round(clients)
            if number:  # the first one warms up
                ratios.append(second / first)
                print(f"{number:>5}  {first:>8.0f}  {second:>10.0f}  {second / first:.3f}")
        print(f"median ratio {statistics.median(ratios):.3f}")


async def _round(clients: list[RawClient]) -> list[float]:
    """The median of each, in microseconds; both in the same seconds."""
    times: list[list[float]] = [[], []]
    for _ in range(BLOCKS):
        for found, client in zip(times, clients, strict=True):
            for _ in range(REQUESTS):
                began = time.perf_counter()
                assert (await client.ask(_REQUEST)).status == 200
                found.append((time.perf_counter() - began) * 1e6)
    return [statistics.median(one) for one in times]


if __name__ == "__main__":
    asyncio.run(main())

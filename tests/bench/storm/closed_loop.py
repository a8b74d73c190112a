"""The best that the engine does at the limit: as many clients as seats, nobody waits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tests.bench.arithmetic import percentile
from tests.bench.processes import NotMeasuredError
from tests.bench.storm.exchange import TOKENS, completion_request, exchange
from tests.bench.storm.rate import faded_rate

# An empty engine has nothing to finish at first; the window of a measurement begins after that.
RAMP_S = 2.0
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Reference:
    """Answers a second, and the 99th percentile of the time to the first byte, when none waits."""

    per_s: float
    first_byte_s: float


async def closed_loop(port: int, clients: int, seconds: float) -> Reference:
    """Asks the engine itself. Raises NotMeasuredError when it fails to answer."""
    loop = asyncio.get_running_loop()
    begins_at = loop.time() + RAMP_S
    ends_at = begins_at + seconds
    moments: list[float] = []
    first_bytes_s: list[float] = []
    request = completion_request(TOKENS)

    async def one() -> None:
        while loop.time() < ends_at:
            answer = await exchange(port, request, _PATIENCE_S)
            if answer.status != 200:
                raise NotMeasuredError(f"the engine answers {answer.status} in the closed loop")
            moments.append(loop.time())
            first_bytes_s.append(answer.first_byte_s)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(one())
    except* NotMeasuredError as failures:
        raise failures.exceptions[0] from None
    per_s = faded_rate(moments, begins_at, ends_at)
    if not per_s:
        raise NotMeasuredError("nothing was answered in the closed loop")
    return Reference(per_s, percentile(sorted(first_bytes_s), 0.99))

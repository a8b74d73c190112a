"""How long after a storm a newcomer is served at once again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from tests.bench.storm.exchange import completion_request, exchange

# One token: as quick as the engine can be, unless something is in the way.
_REQUEST = completion_request(1, {"x-stainless-retry-count": "0"})
_AT_ONCE_S = 0.5
_PATIENCE_S = 10.0
_IN_A_ROW = 3
_EVERY_S = 0.25


@dataclass(frozen=True)
class Recovery:
    """`after_s`: when the first probe of the row was sent. `answers`: how many were read."""

    after_s: float
    answers: int


async def until_normal(port: int, within_s: float) -> Recovery:
    """Sends probes, one after the other, until three in a row were answered at once.

    Gives up after `within_s`, which is then what it took at least.
    """
    loop = asyncio.get_running_loop()
    began_at, since, in_a_row, answers = loop.time(), 0.0, 0, 0
    while (sent_at := loop.time()) - began_at < within_s:
        answer = await exchange(port, _REQUEST, _PATIENCE_S)
        answers += answer.status == 200
        if answer.status == 200 and answer.whole_s <= _AT_ONCE_S:
            since = since if in_a_row else sent_at - began_at
            in_a_row += 1
        else:
            in_a_row = 0
        if in_a_row == _IN_A_ROW:
            return Recovery(since, answers)
        await asyncio.sleep(max(0.0, sent_at + _EVERY_S - loop.time()))
    return Recovery(within_s, answers)

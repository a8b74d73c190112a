"""Two engines, each of which fails one request in twenty, in turn in each way: nothing is lost,
nothing is counted twice, and neither is taken out for so little."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING

from tests.support.gateway_process import gateway
from tests.support.raw_client import RawClient, request_bytes
from tests.support.scripted_upstream import ScriptedUpstream, empty_ok, not_found

if TYPE_CHECKING:
    from tests.support.scripted_exchange import Exchange

REQUESTS = 800
CLIENTS = 24
SEATS = 8
ONE_IN = 20
WAYS = ("500", "503", "short", "closed")
PROBES = {b"/health": empty_ok, b"/metrics": not_found, b"/v1/models": not_found}
SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"


class Failing:
    """`did` counts what the engine did, by status or fault."""

    def __init__(self) -> None:
        self.did: Counter[str] = Counter()
        self._numbers = count(1)

    async def __call__(self, exchange: Exchange) -> None:
        turn, rest = divmod(next(self._numbers), ONE_IN)
        way = "200" if rest else WAYS[turn % len(WAYS)]
        self.did[way] += 1
        if way.isdigit():
            exchange.respond(b"{}", int(way))
            return
        exchange.send(SHORT if way == "short" else b"")
        exchange.close()


def test_of_engines_that_fail_now_and_then_every_request_has_one_end() -> None:
    async def scenario() -> None:
        one, two = Failing(), Failing()
        answered: Counter[str] = Counter()
        left = iter(range(REQUESTS))

        async def client(port: int) -> None:
            for _ in left:
                async with await RawClient.connect(port) as raw:
                    raw.send(request_bytes())
                    try:
                        answer = await raw.answer()
                    except asyncio.IncompleteReadError:
                        answered["short"] += 1
                    else:
                        answered[str(answer.status) if answer.complete else "short"] += 1

        async with (
            ScriptedUpstream(one, probes=PROBES) as first,
            ScriptedUpstream(two, probes=PROBES) as second,
            gateway(f"{first.url},{second.url}", max_in_flight=SEATS, max_queue_depth=50) as sluice,
        ):
            await asyncio.gather(*(client(sluice.port) for _ in range(CLIENTS)))
            await sluice.until_idle()
            did = one.did + two.did
            assert answered.total() == REQUESTS
            for status in ("200", "500", "503", "short"):
                assert answered[status] == did[status], status
            # A connection that dies before any byte is another one's turn, once, where it had been
            # used before; the rest is told the client.
            sent_again = did.total() - REQUESTS
            assert sent_again + answered["502"] == did["closed"]
            assert +await sluice.outcomes() == {
                "ok": did["200"],
                "upstream_error": did["500"] + did["short"] + answered["502"],
                "upstream_overloaded": did["503"],
            }
            assert await sluice.metric("sluice_arrivals_total") == REQUESTS
            assert await sluice.metric("sluice_concurrency_limit") == 2 * SEATS, "none is out"
            assert max(first.peak, second.peak) <= SEATS
        assert sluice.exit_code == 0

    asyncio.run(scenario())

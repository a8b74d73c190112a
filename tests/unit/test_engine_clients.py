from __future__ import annotations

import pytest

from proxy.engine_clients import EngineClients
from proxy.upstream.address import UpstreamAddress
from proxy.upstream.httpx_client import HttpxUpstream
from proxy.upstream.pool import ConnectionPool
from tests.support.gateway_in_memory import settings
from tests.support.virtual_time import run

HERE = UpstreamAddress.parse("http://127.0.0.1:8000")


@pytest.mark.parametrize(
    ("chosen", "expected"), [("pool", ConnectionPool), ("httpx", HttpxUpstream)]
)
def test_the_client_is_the_one_that_is_chosen_with_the_timeouts_that_are_set(
    chosen: str, expected: type[ConnectionPool | HttpxUpstream]
) -> None:
    async def scenario() -> None:
        wanted = settings(
            upstream_client=chosen,
            connect_timeout=1,
            first_byte_timeout=2,
            idle_timeout=3,
            total_timeout=4,
        )
        client = EngineClients(wanted).of(HERE)
        assert isinstance(client, expected)
        timeouts = client._timeouts
        assert timeouts.connect_s == 1
        assert timeouts.first_byte_s == 2
        assert timeouts.idle_s == 3
        assert timeouts.total_s == 4
        await client.aclose()

    run(scenario())


def test_the_pools_of_one_gateway_share_a_reserve_and_those_of_two_do_not() -> None:
    async def scenario() -> None:
        clients, others = EngineClients(settings()), EngineClients(settings())
        pools = [clients.of(HERE), clients.of(HERE), others.of(HERE)]
        reserves = [pool._reserve for pool in pools if isinstance(pool, ConnectionPool)]
        assert reserves[0] is reserves[1]
        assert reserves[0] is not reserves[2]
        clients.keep_within(lambda: 3)
        others.keep_within(None)
        assert reserves[0]._most is not None
        assert reserves[0]._most() == 3
        for pool in pools:
            await pool.aclose()

    run(scenario())

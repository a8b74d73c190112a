"""Against servers that say what the test wants; tests/e2e has real sentinels and clusters."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from redis.exceptions import AuthenticationError

from proxy.env_values.store_address import StoreAddress
from proxy.shared_limit import redis_route
from proxy.shared_limit.redis_route import RedisRoute
from tests.support.fake_redis import FakeRedis, bulk
from tests.support.relay import Relay
from tests.support.tls import tls_pair

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

KEY = "sluice:lease:{team}:"
SLOT = 15631


def array(*items: bytes) -> bytes:
    return b"*%d\r\n%b" % (len(items), b"".join(items))


def number(value: int) -> bytes:
    return b":%d\r\n" % value


def holder(first: int, last: int, host: bytes, port: int) -> bytes:
    return array(number(first), number(last), array(bulk(host), number(port), bulk(b"id")))


def with_servers(scenario: Callable[[list[FakeRedis]], Awaitable[None]]) -> None:
    """Two to ask, and a third one."""

    async def main() -> None:
        servers = [FakeRedis() for _ in range(3)]
        for one in servers:
            await one.listen()
        try:
            await scenario(servers)
        finally:
            for one in servers:
                await one.until_connections(0)
                one.close()

    asyncio.run(main())


async def port_reached(url: str) -> int:
    connection = await RedisRoute(StoreAddress.parse(url), KEY, "sluice:team:a").connect()
    try:
        writer = connection._writer
        assert writer is not None
        port: int = writer.get_extra_info("peername")[1]
        return port
    finally:
        await connection.disconnect(nowait=True)


def sentinels(servers: list[FakeRedis], query: str = "") -> str:
    first, second, _ = servers
    return f"redis+sentinel://127.0.0.1:{first.port},127.0.0.1:{second.port}/main{query}"


def cluster(servers: list[FakeRedis]) -> str:
    return sentinels(servers).replace("sentinel", "cluster").replace("/main", "")


def primary(server: FakeRedis) -> bytes:
    return array(bulk(b"127.0.0.1"), bulk(b"%d" % server.port))


def test_the_server_that_is_named_is_called_by_our_name() -> None:
    async def scenario(servers: list[FakeRedis]) -> None:
        assert await port_reached(f"redis://127.0.0.1:{servers[0].port}") == servers[0].port
        assert [b"CLIENT", b"SETNAME", b"sluice:team:a"] in servers[0].asked

    with_servers(scenario)


def test_over_tls_a_server_that_does_not_say_goodbye_keeps_no_socket_open() -> None:
    """It would be found by the collector, long after the loop has ended."""

    async def main() -> None:
        fake = FakeRedis()
        await fake.listen(tls_pair().server)
        async with Relay(fake.port) as link:
            url = f"rediss://127.0.0.1:{link.port}/0?ssl_cert_reqs=none"
            connection = await RedisRoute(StoreAddress.parse(url), KEY, "sluice:team:a").connect()
            assert connection._writer is not None
            socket = connection._writer.get_extra_info("socket")
            link.cut()
            await connection.disconnect()
            await asyncio.sleep(0)
            assert socket.fileno() == -1
        await fake.until_connections(0)
        fake.close()

    asyncio.run(main())


def test_the_primary_is_where_a_sentinel_says_that_it_is() -> None:
    async def scenario(servers: list[FakeRedis]) -> None:
        for one in servers[:2]:
            one.says[b"SENTINEL"] = primary(servers[2])
        assert await port_reached(sentinels(servers)) == servers[2].port
        asked = [words for one in servers[:2] for words in one.asked if words[0] == b"SENTINEL"]
        assert asked == [[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", b"main"]]

    with_servers(scenario)


def test_each_time_another_sentinel_is_asked_first() -> None:
    async def scenario(servers: list[FakeRedis]) -> None:
        servers[0].says[b"SENTINEL"] = primary(servers[0])
        servers[1].says[b"SENTINEL"] = primary(servers[2])
        route = RedisRoute(StoreAddress.parse(sentinels(servers)), KEY, "name")
        found = [await route._found() for _ in range(3)]
        assert found == [("127.0.0.1", servers[at].port) for at in (2, 0, 2)]

    with_servers(scenario)


def test_sentinels_have_a_password_of_their_own() -> None:
    async def scenario(servers: list[FakeRedis]) -> None:
        servers[1].says[b"SENTINEL"] = primary(servers[2])
        url = sentinels(servers, "?sentinel_password=theirs")
        await port_reached(url.replace("//", "//:ours@"))
        assert [words[1:] for words in servers[1].asked if words[0] == b"AUTH"] == [[b"theirs"]]
        assert [words[1:] for words in servers[2].asked if words[0] == b"AUTH"] == [[b"ours"]]

    with_servers(scenario)


def test_who_is_silent_or_does_not_know_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_route, "_NODE_ANSWERS_WITHIN_S", 0.05)

    async def scenario(servers: list[FakeRedis]) -> None:
        servers[0].says[b"SENTINEL"] = primary(servers[2])
        servers[1].says[b"SENTINEL"] = None
        assert await port_reached(sentinels(servers)) == servers[2].port
        servers[1].says[b"SENTINEL"] = b"*-1\r\n"
        assert await port_reached(sentinels(servers)) == servers[2].port

    with_servers(scenario)


def test_when_none_knows_each_one_is_named_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redis_route, "_NODE_ANSWERS_WITHIN_S", 0.05)

    async def scenario(servers: list[FakeRedis]) -> None:
        servers[0].says[b"SENTINEL"] = None
        servers[1].says[b"SENTINEL"] = b"*-1\r\n"
        with pytest.raises(ConnectionError) as raised:
            await port_reached(sentinels(servers))
        assert f"{raised.value}" == (
            f"127.0.0.1:{servers[1].port}: does not know the service; "
            f"127.0.0.1:{servers[0].port}: no answer"
        )

    with_servers(scenario)


def test_one_that_will_not_have_us_is_not_passed_over() -> None:
    async def scenario(servers: list[FakeRedis]) -> None:
        servers[1].says[b"AUTH"] = b"-WRONGPASS invalid username-password pair\r\n"
        with pytest.raises(AuthenticationError):
            await port_reached(sentinels(servers, "?sentinel_password=x"))

    with_servers(scenario)


def test_in_a_cluster_it_is_the_node_that_has_the_slot_of_the_key() -> None:
    async def scenario(servers: list[FakeRedis]) -> None:
        for one in servers[:2]:
            one.says[b"CLUSTER"] = array(
                holder(0, SLOT - 1, b"127.0.0.1", 1),
                holder(SLOT, SLOT, b"127.0.0.1", servers[2].port),
                holder(SLOT + 1, 16383, b"127.0.0.1", 1),
            )
        assert await port_reached(cluster(servers)) == servers[2].port

    with_servers(scenario)


def test_a_node_without_an_address_is_the_one_that_was_asked() -> None:
    async def scenario(servers: list[FakeRedis]) -> None:
        servers[1].says[b"CLUSTER"] = array(holder(0, 16383, b"", servers[1].port))
        assert await port_reached(cluster(servers)) == servers[1].port

    with_servers(scenario)


def test_slots_that_nobody_has_are_a_fault() -> None:
    async def scenario(servers: list[FakeRedis]) -> None:
        for one in servers[:2]:
            one.says[b"CLUSTER"] = array(holder(0, 1, b"127.0.0.1", 1))
        with pytest.raises(ConnectionError, match="no node of the cluster has the leases"):
            await port_reached(cluster(servers))

    with_servers(scenario)

"""Leases in a Redis behind TLS and a user's rights, behind Sentinel, and in a Redis Cluster.

Real servers; the gateways are in this process, and their time passes when a test says so.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trustme

from proxy.shared_limit.redis_store import RedisStore
from proxy.shared_limit.store import GRACE_S, LEASE_S, Renewal, StoreAwayError, StoreRefusedError
from tests.support.engine_process import free_port, wait_until
from tests.support.redis_server import RedisServer, running_redis, running_sentinel
from tests.support.sharing_gateways import Clock, World

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from proxy.shared_limit.store import Granted

LIMIT = 8
TEAM_SLOT = 15631
ASKED = {"engine": Renewal(gateway="a", seq=1, keep=0, want=1, widest=1, waited_ms=0, limit=8)}
# Those that docs/several-gateways.md names.
RIGHTS = "+evalsha +script|load +info +get +set +time +client|setname +client|list"


def in_a_world(url: str, scenario: Callable[[World], Awaitable[None]]) -> None:
    """Two gateways that have registered."""

    async def main() -> None:
        clock = Clock()
        world = World(lambda name: RedisStore(url, "team", name, clock), clock, LIMIT)
        try:
            world.join()
            world.join()
            await world.pass_time(GRACE_S + 1)
            await scenario(world)
        finally:
            await world.close()

    asyncio.run(main())


async def until_heard_again(world: World) -> None:
    """The store is elsewhere now, which takes real time."""
    for _ in range(100):
        await world.renew()
        assert world.taken <= LIMIT
        if all(one.keeper.state().is_store_up for one in world.gateways):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the store was not found again")


async def seats_move(world: World) -> None:
    """From whoever has them to the second gateway, one after the other."""
    first, second = world.gateways
    first.wait_for(0)
    second.wait_for(1000)
    for _ in range(80):
        first.end(1)
        await world.pass_time(0.25)
        assert world.taken <= LIMIT
    assert (first.taken, second.taken) == (0, LIMIT)


# TLS and rights -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory, authority: trustme.CA
) -> Iterator[Callable[[str, str], str]]:
    """The URL of a server that speaks TLS as 127.0.0.1, for a user's password and with options."""
    directory, port = tmp_path_factory.mktemp("guarded"), free_port()
    pem = directory / "authority.pem"
    authority.cert_pem.write_to_path(pem)
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(directory / "key.pem")
    issued.cert_chain_pems[0].write_to_path(directory / "cert.pem")
    with running_redis(
        directory,
        *("--tls-port", str(port), "--tls-auth-clients", "no"),
        *("--tls-cert-file", str(directory / "cert.pem")),
        *("--tls-key-file", str(directory / "key.pem"), "--tls-ca-cert-file", str(pem)),
        *("--user", "default", "off"),
        *("--user", "team", "on", ">s%cret", "~sluice:*", *RIGHTS.split()),
        *("--user", "blind", "on", ">s%cret", "~sluice:*", *RIGHTS.split()[:-1]),
    ):
        yield lambda secret, host: f"rediss://team:{secret}@{host}:{port}/0?ssl_ca_certs={pem}"


async def renewed_once(
    url: str, cluster: str = "team"
) -> tuple[Granted | None, frozenset[str] | None]:
    store = RedisStore(url, cluster, "a")
    try:
        return (await store.renew(ASKED))["engine"], await store.connected()
    finally:
        await store.aclose()


def test_over_tls_with_the_rights_that_are_documented(guarded: Callable[[str, str], str]) -> None:
    granted, connected = asyncio.run(renewed_once(guarded("s%25cret", "127.0.0.1")))
    assert granted is not None
    assert connected == {"a"}


def test_who_may_not_list_clients_has_a_lease_all_the_same(
    guarded: Callable[[str, str], str],
) -> None:
    url = guarded("s%25cret", "127.0.0.1").replace("team", "blind")
    granted, connected = asyncio.run(renewed_once(url, "another"))
    assert granted is not None
    assert connected is None


def test_over_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "redis.sock"
    with running_redis(tmp_path, "--unixsocket", str(path)):
        granted, connected = asyncio.run(renewed_once(f"unix://{path}?db=1"))
    assert granted is not None
    assert connected == {"a"}


def test_a_wrong_password_is_told_without_it(guarded: Callable[[str, str], str]) -> None:
    with pytest.raises(StoreRefusedError) as raised:
        asyncio.run(renewed_once(guarded("wr0ng", "127.0.0.1")))
    assert "wr0ng" not in f"{raised.value}"


def test_a_server_of_another_name_is_not_trusted(guarded: Callable[[str, str], str]) -> None:
    with pytest.raises(StoreAwayError, match="certificate verify failed"):
        asyncio.run(renewed_once(guarded("s%25cret", "localhost")))


def test_a_server_of_an_unknown_authority_is_not_trusted(
    guarded: Callable[[str, str], str], tmp_path: Path
) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    url = guarded("s%25cret", "127.0.0.1").partition("?")[0]
    with pytest.raises(StoreAwayError, match="certificate verify failed"):
        asyncio.run(renewed_once(f"{url}?ssl_ca_certs={other}"))


# What others do to the server ---------------------------------------------------------------------


def test_a_server_that_is_back_with_another_password_takes_the_seats_and_gives_them_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running_redis(tmp_path) as server:

        async def scenario(world: World) -> None:
            for gateway in world.gateways:
                gateway.wait_for(1000)
            await world.pass_time(1)
            assert world.taken == LIMIT
            server.stop()
            server.arguments = ("--requirepass", "another")
            server.start()
            await world.pass_time(LEASE_S + 1)
            assert [one.limit.seats for one in world.gateways] == [0, 0]
            assert caplog.text.count("refuses this gateway: Authentication required") == 2
            server.stop()
            server.arguments = ()
            server.start()
            await world.pass_time(GRACE_S + 1)
            await seats_move(world)

        in_a_world(server.url, scenario)


def test_scripts_that_are_flushed_and_a_key_of_another_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = "sluice:lease:{team}:engine"
    with running_redis(tmp_path) as server:

        async def scenario(world: World) -> None:
            assert server.command("SCRIPT", "FLUSH") == b"+OK\r\n"
            caplog.clear()
            await world.pass_time(1)
            assert caplog.text == "", "nobody is told of what heals by itself"
            for words in (("RPUSH", key, "x"), ("SET", key, "7")):
                server.command("DEL", key)
                server.command(*words)
                await world.pass_time(10)
                assert [one.limit.seats for one in world.gateways] == [LIMIT / 2, LIMIT / 2]
                assert f"(key {key})" in caplog.text
            server.command("DEL", key)
            await world.pass_time(GRACE_S + 1)
            await seats_move(world)

        in_a_world(server.url, scenario)


# Sentinel -----------------------------------------------------------------------------------------


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[str, RedisServer, RedisServer]]:
    """The URL; the primary and its replica."""
    with ExitStack() as stack:
        primary = stack.enter_context(running_redis(tmp_path, "--repl-diskless-sync-delay", "0"))
        replica = stack.enter_context(
            running_redis(tmp_path, "--replicaof", "127.0.0.1", f"{primary.port}")
        )
        wait_until(
            lambda: b"master_link_status:up" in replica.command("INFO", "replication"),
            "a replica that follows",
        )
        sentinel = stack.enter_context(running_sentinel(tmp_path, primary))
        wait_until(
            lambda: f"{replica.port}".encode() in sentinel.command("SENTINEL", "REPLICAS", "main"),
            "a sentinel that knows the replica",
        )
        yield f"redis+sentinel://127.0.0.1:1,127.0.0.1:{sentinel.port}/main", primary, replica


def test_over_a_fail_over_that_forgets_the_last_leases_the_limit_holds(
    watched: tuple[str, RedisServer, RedisServer],
) -> None:
    url, primary, replica = watched

    async def scenario(world: World) -> None:
        first, second = world.gateways
        first.wait_for(1000)
        await world.pass_time(1)
        assert first.taken == LIMIT
        assert primary.command("WAIT", "1", "2000") == b":1\r\n"
        replica.pause()  # from here on it does not hear who has what
        first.wait_for(0)
        first.end(5)
        second.wait_for(1000)
        await world.pass_time(1)
        assert (first.taken, second.taken) == (3, 5)
        primary.stop()
        replica.resume()
        await until_heard_again(world)
        assert b"role:master" in replica.command("INFO", "replication")
        assert (first.taken, second.taken) == (3, 5)
        await world.pass_time(GRACE_S + 1)
        await seats_move(world)

    in_a_world(url, scenario)


def test_a_service_that_the_sentinel_does_not_watch_is_said(
    watched: tuple[str, RedisServer, RedisServer],
) -> None:
    url = watched[0].replace("/main", "/other")
    with pytest.raises(StoreAwayError, match="does not know the service"):
        asyncio.run(renewed_once(url))


# Cluster ------------------------------------------------------------------------------------------


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[RedisServer]]:
    """The nodes of a cluster; the last one has the leases."""
    ranges = [("0", "4999"), ("5000", "9000"), ("9001", "16383")]
    with ExitStack() as stack:
        nodes = []
        for number, slots in enumerate(ranges):
            directory = tmp_path / f"{number}"
            directory.mkdir()
            node = stack.enter_context(
                running_redis(
                    directory,
                    *("--cluster-enabled", "yes", "--cluster-node-timeout", "2000"),
                    *("--cluster-port", str(free_port())),
                )
            )
            node.command("CLUSTER", "ADDSLOTSRANGE", *slots)
            node.command("CLUSTER", "SET-CONFIG-EPOCH", f"{number + 1}")
            nodes.append(node)
        for node in nodes[1:]:
            bus = node.arguments[-1]
            nodes[0].command("CLUSTER", "MEET", "127.0.0.1", f"{node.port}", bus)
        for node in nodes:
            wait_until(
                partial(is_whole, node),
                "a cluster that is whole",
            )
        yield nodes


def is_whole(node: RedisServer) -> bool:
    return b"cluster_state:ok" in node.command("CLUSTER", "INFO")


def test_in_a_cluster_the_leases_are_found_and_found_again_when_they_move(
    three: list[RedisServer],
) -> None:
    async def scenario(world: World) -> None:
        first, second = world.gateways
        first.wait_for(5)
        second.wait_for(3)
        await world.pass_time(2)
        assert (first.taken, second.taken) == (5, 3)
        await leases_move_to_another_node(three)
        await until_heard_again(world)
        assert (first.taken, second.taken) == (5, 3)
        await world.pass_time(GRACE_S + 1)
        await seats_move(world)

    in_a_world(f"redis+cluster://127.0.0.1:{three[0].port},127.0.0.1:1", scenario)


async def leases_move_to_another_node(nodes: list[RedisServer]) -> None:
    """The keys do not move with their slot."""
    target, *_, source = nodes
    assert source.command("DEL", "sluice:lease:{team}:engine") == b":1\r\n"
    name = target.command("CLUSTER", "MYID").split(b"\r\n")[1].decode()
    for node in (target, source):
        said = node.command("CLUSTER", "SETSLOT", f"{TEAM_SLOT}", "NODE", name)
        assert said == b"+OK\r\n", said

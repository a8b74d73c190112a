"""The pool's own decisions, in virtual time and over played transports. What is seen on the wire is
in tests/conformance."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

import pytest

from proxy.upstream.address import UpstreamAddress
from proxy.upstream.connection import Connection
from proxy.upstream.errors import (
    UpstreamClosedError,
    UpstreamConnectError,
    UpstreamError,
    UpstreamTimeoutError,
)
from proxy.upstream.idle_reserve import IdleReserve
from proxy.upstream.pool import IDLE_EXPIRY_S, IDLE_RACE_S, ConnectionPool
from proxy.upstream.port import PoolSnapshot, UpstreamRequest, UpstreamTimeouts
from proxy.upstream.response_parser import ResponseParser
from tests.support.fake_transport import FakeTransport
from tests.support.knots import no_knots_of
from tests.support.virtual_time import now, run, settle

if TYPE_CHECKING:
    from collections.abc import Callable

ASK = UpstreamRequest("POST", b"/x", [(b"host", b"h")], b"{}")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
UVICORN_CLOSES_IDLE_CONNECTIONS_AFTER_S = 5.0


class Network:
    """Where the loop's connections go: every one is a played transport, in the order opened."""

    def __init__(self, answer: bytes | None = OK, connect_s: float = 0.0) -> None:
        self.transports: list[FakeTransport] = []
        self.hosts: list[str] = []
        self.answer = answer
        self.connect_s = connect_s
        self.failure: Exception | None = None
        loop = asyncio.get_running_loop()
        loop.create_connection = self._connect  # type: ignore[method-assign, assignment]

    async def _connect(
        self, make: Callable[[], Connection], host: str, port: int
    ) -> tuple[FakeTransport, Connection]:
        assert port == 8000
        self.hosts.append(host)
        await asyncio.sleep(self.connect_s)
        if self.failure is not None:
            raise self.failure
        connection = make()
        transport = _Answering(connection, self)
        self.transports.append(transport)
        return transport, connection


class _Answering(FakeTransport):
    """Answers each request in the next loop turn, as long as the network has an answer."""

    def __init__(self, connection: Connection, network: Network) -> None:
        self._network = network
        super().__init__(connection)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        if self._network.answer is not None:
            loop = asyncio.get_running_loop()
            loop.call_soon(self.protocol.data_received, self._network.answer)


def pool_of(
    timeouts: UpstreamTimeouts | None = None, *, reserve: IdleReserve | None = None
) -> ConnectionPool:
    return ConnectionPool(UpstreamAddress.parse("http://engine:8000"), timeouts, reserve=reserve)


async def fetch(pool: ConnectionPool) -> bytes:
    async with pool.exchange(ASK) as response:
        return await response.read()


def used(network: Network) -> list[int]:
    """Requests by connection."""
    return [len(transport.written) for transport in network.transports]


def test_connections_are_reused_last_in_first_out() -> None:
    """So that those that are not needed age and close."""

    async def scenario() -> None:
        network, pool = Network(), pool_of()
        await asyncio.gather(*(fetch(pool) for _ in range(3)))
        for _ in range(5):
            await fetch(pool)
        assert used(network) == [1, 1, 6]
        await pool.aclose()

    run(scenario())


def test_the_snapshot_counts_connections_by_state() -> None:
    async def scenario() -> None:
        network, pool = Network(), pool_of()
        assert pool.snapshot() == PoolSnapshot()
        async with pool.exchange(ASK):
            assert pool.snapshot() == PoolSnapshot(in_use=1, opened=1)
        assert pool.snapshot() == PoolSnapshot(idle=1, opened=1)
        await fetch(pool)
        assert pool.snapshot() == PoolSnapshot(idle=1, opened=1, reused=1)
        assert repr(pool) == "<ConnectionPool engine:8000 in_use=0 idle=1>"
        network.answer = None
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fetch(pool), 1)
        assert pool.snapshot() == PoolSnapshot(opened=1, reused=2)
        await pool.aclose()

    run(scenario())


def test_idle_connections_are_closed_well_before_uvicorn_would() -> None:
    assert IDLE_EXPIRY_S <= UVICORN_CLOSES_IDLE_CONNECTIONS_AFTER_S - 1.5

    async def scenario() -> None:
        network, pool = Network(), pool_of()
        await fetch(pool)
        await asyncio.sleep(IDLE_EXPIRY_S - 0.01)
        assert pool.snapshot().idle == 1
        await asyncio.sleep(0.02)
        assert pool.snapshot().idle == 0
        assert network.transports[0].aborts == 1
        await fetch(pool)
        assert used(network) == [1, 1]
        await pool.aclose()

    run(scenario())


def test_each_idle_connection_has_its_own_age() -> None:
    async def scenario() -> None:
        network, pool = Network(), pool_of()
        await asyncio.gather(fetch(pool), fetch(pool))
        for _ in range(4):
            await asyncio.sleep(1)
            await fetch(pool)  # keeps one of them young
        assert pool.snapshot().idle == 1
        assert [transport.aborts for transport in network.transports] == [1, 0]
        await asyncio.sleep(IDLE_EXPIRY_S)
        assert pool.snapshot().idle == 0
        await pool.aclose()

    run(scenario())


def test_a_connection_that_died_while_idle_is_forgotten_at_once() -> None:
    async def scenario() -> None:
        network, pool = Network(), pool_of()
        await fetch(pool)
        network.transports[0].lose(ConnectionResetError())
        await settle()
        assert pool.snapshot() == PoolSnapshot(opened=1)
        await pool.aclose()

    run(scenario())


def test_a_reused_connection_that_dies_unanswered_costs_one_more_try_on_a_fresh_one() -> None:
    async def scenario() -> None:
        network, pool = Network(), pool_of()
        await asyncio.gather(fetch(pool), fetch(pool))
        network.answer = None
        asking = asyncio.create_task(fetch(pool))
        await settle()
        network.answer = OK
        network.transports[1].lose(None)
        assert await asking == b"ok"
        assert used(network) == [1, 2, 1]
        assert pool.snapshot().resent == 1
        await pool.aclose()

    run(scenario())


def test_a_try_that_was_in_vain_leaves_nothing_to_the_collector() -> None:
    """The error that told of it held the connection by its traceback, which held the error."""

    async def scenario() -> None:
        network, pool = Network(), pool_of()
        await fetch(pool)
        network.answer = None
        asking = asyncio.create_task(fetch(pool))
        await settle()
        network.answer = OK
        network.transports[0].lose(None)
        assert await asking == b"ok"
        await pool.aclose()
        for transport in network.transports:
            vars(transport).clear()  # as a real one lets go of its protocol

    with no_knots_of(Connection, ResponseParser, UpstreamError):
        run(scenario())


def test_the_second_try_is_the_last() -> None:
    async def scenario() -> None:
        network, pool = Network(), pool_of()
        await asyncio.gather(fetch(pool), fetch(pool))
        network.answer = None
        asking = asyncio.create_task(fetch(pool))
        for dying in (1, 2):
            await settle()
            network.transports[dying].lose(None)
        with pytest.raises(UpstreamClosedError):
            await asking
        assert used(network) == [1, 2, 1]
        await pool.aclose()

    run(scenario())


@pytest.mark.parametrize(
    ("lived_s", "error"),
    [(0.0, UpstreamConnectError), (2 * IDLE_RACE_S, UpstreamClosedError)],
)
def test_a_request_is_unseen_only_if_its_connection_died_at_once_and_there_is_no_other(
    lived_s: float, error: type[UpstreamError]
) -> None:
    async def scenario() -> None:
        network, pool = Network(), pool_of()
        await fetch(pool)
        network.answer = None
        network.failure = ConnectionRefusedError(111, "Connection refused")
        asking = asyncio.create_task(fetch(pool))
        await settle()
        await asyncio.sleep(lived_s)
        network.transports[0].lose(None)
        with pytest.raises(error):
            await asking
        assert pool.snapshot().in_use == 0
        await pool.aclose()

    run(scenario())


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (ConnectionRefusedError(111, "Connection refused"), r"\[Errno 111\] Connection refused"),
        (OSError(24, "Too many open files"), r"\[Errno 24\] Too many open files"),
        (TimeoutError(110, "Connection timed out"), r"\[Errno 110\] Connection timed out"),
        (UnicodeError("label too long"), "label too long"),
        (OSError(), "OSError"),
    ],
)
def test_a_failed_connect_says_what_the_system_said(failure: Exception, said: str) -> None:
    async def scenario() -> None:
        network, pool = Network(), pool_of()
        network.failure = failure
        with pytest.raises(UpstreamConnectError, match=f"^engine at engine:8000: {said}$"):
            await fetch(pool)
        assert pool.snapshot() == PoolSnapshot()
        await pool.aclose()

    run(scenario())


class FewDescriptors(Network):
    """Only so many connections can be open at a time."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    async def _connect(
        self, make: Callable[[], Connection], host: str, port: int
    ) -> tuple[FakeTransport, Connection]:
        is_full = self.open >= self._most
        self.failure = OSError(errno.EMFILE, "Too many open files") if is_full else None
        return await super()._connect(make, host, port)

    @property
    def open(self) -> int:
        return sum(not transport.is_closing() for transport in self.transports)


def test_for_want_of_a_descriptor_what_has_been_idle_longest_goes_whosever_it_is() -> None:
    """R37: connections that are kept to one engine must not keep requests from another."""

    async def scenario() -> None:
        network, reserve = FewDescriptors(3), IdleReserve()
        mine, others = pool_of(reserve=reserve), pool_of(reserve=reserve)
        await asyncio.gather(fetch(others), fetch(others))
        async with mine.exchange(ASK):
            assert await asyncio.gather(fetch(mine), fetch(mine)) == [b"ok", b"ok"]
            assert network.open == 3
            assert mine.snapshot() == PoolSnapshot(in_use=1, idle=2, opened=3)
            assert others.snapshot().idle == 0
        await asyncio.gather(mine.aclose(), others.aclose())

    run(scenario())


def test_a_fresh_connection_takes_the_place_of_an_idle_one_where_all_have_theirs() -> None:
    """Else those to engines would fill what clients need, who could not be accepted."""

    async def scenario() -> None:
        network, reserve = FewDescriptors(100), IdleReserve()
        reserve.keep_within(lambda: 3)
        mine, others = pool_of(reserve=reserve), pool_of(reserve=reserve)
        await asyncio.gather(*(fetch(others) for _ in range(3)))
        assert await fetch(others) == b"ok"
        assert network.open == 3, "one that is used again needs no room"
        async with mine.exchange(ASK):
            assert await fetch(mine) == b"ok"
            assert network.open == 3
            assert (others.snapshot().idle, mine.snapshot().idle) == (1, 1)
        await asyncio.gather(mine.aclose(), others.aclose())

    run(scenario())


def test_without_an_idle_connection_the_want_of_a_descriptor_is_told() -> None:
    async def scenario() -> None:
        FewDescriptors(1)
        reserve = IdleReserve()
        mine, closed = pool_of(reserve=reserve), pool_of(reserve=reserve)
        await closed.aclose()
        async with mine.exchange(ASK):
            with pytest.raises(UpstreamConnectError, match="Too many open files") as told:
                await fetch(mine)
            assert told.value.is_ours
        assert await fetch(mine) == b"ok"
        await mine.aclose()

    run(scenario())


def test_another_failure_costs_no_idle_connection() -> None:
    async def scenario() -> None:
        network, pool = Network(), pool_of()
        await fetch(pool)
        async with pool.exchange(ASK):
            await fetch(pool)
            network.failure = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            async with pool.exchange(ASK):
                with pytest.raises(UpstreamConnectError):
                    await fetch(pool)
            assert pool.snapshot().idle == 1
        await pool.aclose()

    run(scenario())


def test_connecting_has_its_own_timeout() -> None:
    async def scenario() -> None:
        Network(connect_s=100)
        pool = pool_of(UpstreamTimeouts(connect_s=5))
        with pytest.raises(UpstreamConnectError, match="no connection within 5 s"):
            await fetch(pool)
        assert now() == 5
        await pool.aclose()

    run(scenario())


def test_the_total_timeout_counts_the_connecting_too() -> None:
    async def scenario() -> None:
        Network(answer=None, connect_s=4)
        pool = pool_of(UpstreamTimeouts(total_s=10))
        with pytest.raises(UpstreamTimeoutError, match="longer than 10 s"):
            await fetch(pool)
        assert now() == 10
        await pool.aclose()

    run(scenario())


def test_the_total_timeout_ends_what_waits_for_somebody_else_and_closes_the_connection() -> None:
    async def scenario() -> None:
        network = Network(answer=b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no")
        pool = pool_of(UpstreamTimeouts(total_s=10))
        with pytest.raises(UpstreamTimeoutError, match="longer than 10 s"):
            async with pool.exchange(ASK):
                await asyncio.sleep(1000)
        assert (now(), network.transports[0].aborts, pool.snapshot().in_use) == (10, 1, 0)
        await pool.aclose()

    run(scenario())


def test_closing_the_pool_while_one_connects_ends_that_too() -> None:
    async def scenario() -> None:
        network = Network(connect_s=1)
        pool = pool_of()
        asking = asyncio.create_task(fetch(pool))
        await settle()
        await pool.aclose()
        with pytest.raises(UpstreamConnectError, match="closed"):
            await asking
        assert network.transports[0].aborts == 1

    run(scenario())


def test_a_closed_pool_leaves_no_timer() -> None:
    async def scenario() -> None:
        Network()
        pool = pool_of()
        await fetch(pool)
        await pool.aclose()
        scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        assert [timer for timer in scheduled if not timer.cancelled()] == []

    run(scenario())


def test_an_engine_that_moves_leaves_no_idle_connection_where_it_was() -> None:
    async def scenario() -> None:
        network, pool = Network(), pool_of()
        await fetch(pool)
        pool.move(UpstreamAddress.parse("http://engine:8000").at("10.0.0.2"))
        assert network.transports[0].aborts == 1
        assert pool.snapshot() == PoolSnapshot(opened=1)
        await fetch(pool)
        assert network.hosts == ["engine", "10.0.0.2"]
        await pool.aclose()

    run(scenario())


def test_a_connection_in_use_when_the_engine_moves_is_not_kept() -> None:
    async def scenario() -> None:
        network, pool = Network(), pool_of()
        async with pool.exchange(ASK) as response:
            pool.move(UpstreamAddress.parse("http://engine:8000").at("10.0.0.2"))
            assert await response.read() == b"ok"
        assert network.transports[0].aborts == 1
        assert pool.snapshot() == PoolSnapshot(opened=1)
        await pool.aclose()

    run(scenario())


def test_a_failure_names_the_address_that_was_tried() -> None:
    async def scenario() -> None:
        network, pool = Network(), pool_of()
        pool.move(UpstreamAddress.parse("http://engine:8000").at("10.0.0.2"))
        network.failure = ConnectionRefusedError(111, "Connection refused")
        with pytest.raises(UpstreamConnectError, match=r"^engine at engine:8000#10\.0\.0\.2: "):
            await fetch(pool)
        await pool.aclose()

    run(scenario())

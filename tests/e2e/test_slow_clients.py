"""Clients that say or read next to nothing, at both listeners: each is ended in time, and nobody
else waits for them.

What one of them is told is for test_bodies.py and test_framing.py; here they come together, a
gateway of two seats and little patience in front.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from tests.support.gateway_process import eventually
from tests.support.process_sockets import open_descriptors
from tests.support.raw_client import RawClient, ask_once, request_bytes
from tests.support.stand import Stand, on_the_stand, standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.scripted_upstream import Exchange

REQUEST_S, WRITE_S = 0.6, 1.0
# They are looked for every second.
ENDS_WITHIN_S = 2 * REQUEST_S + 1 + 1.5
ADMIN_TOKEN = "token-of-the-operators"


@pytest.fixture(scope="module", name="stand")
def _stand() -> Iterator[Stand]:
    with standing(
        max_in_flight=2,
        max_queue_depth=4,
        body_timeout=REQUEST_S,
        write_timeout=WRITE_S,
        admin_token=ADMIN_TOKEN,
    ) as stand:
        yield stand


POST = b"POST /v1/completions HTTP/1.1\r\nHost: g\r\n"
SLOW_ATTACKS = {
    "silent": b"",
    "a head that never ends": b"GET /healthz HTTP/1.1\r\nx",
    "a request line that never ends": b"GET /",
    "a body that never ends": POST + b"Content-Length: 100000\r\n\r\n",
    "chunks that never end": POST + b"Transfer-Encoding: chunked\r\n\r\n",
    "a chunk that never ends": POST + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n",
    "a size that never ends": POST + b"Transfer-Encoding: chunked\r\n\r\n1;x",
    "a body nobody asked for": (
        b"GET /healthz HTTP/1.1\r\nHost: g\r\nContent-Length: 100000\r\n\r\n"
    ),
    "a stranger's body": (
        b"PATCH /admin/settings HTTP/1.1\r\nHost: g\r\nContent-Length: 9000\r\n\r\n"
    ),
}


def drops_for(attack: str) -> bytes:
    """One after the other, so that the connection is never silent for long."""
    if attack == "silent":
        return b""
    return b"1\r\nx\r\n" if attack == "chunks that never end" else b"x"


async def lasts(port: int, attack: str) -> float:
    """Seconds until the gateway ends the connection."""
    loop = asyncio.get_running_loop()
    async with await RawClient.connect(port) as client:
        began = loop.time()
        client.send(SLOW_ATTACKS[attack])
        end = asyncio.create_task(client.rest())
        while not end.done():
            await asyncio.wait([end], timeout=0.1)
            client.send(drops_for(attack))
        await end
        return loop.time() - began


@on_the_stand
async def test_who_says_next_to_nothing_is_ended_at_both_listeners(stand: Stand) -> None:
    sluice = stand.sluice
    before = open_descriptors(sluice.pid)
    cases = [(port, attack) for port in (sluice.port, sluice.admin_port) for attack in SLOW_ATTACKS]
    async with asyncio.timeout(3 * ENDS_WITHIN_S):
        ending = asyncio.gather(*(lasts(*case) for case in cases for _ in range(5)))
        answers = [await ask_once(sluice.port, stand.request()) for _ in range(20)]
        assert {answer.status for answer in answers} == {200}, "nobody else waits for them"
        assert max(await ending) < ENDS_WITHIN_S
    await eventually(lambda: open_descriptors(sluice.pid) <= before + 2)


async def endless(exchange: Exchange) -> None:
    exchange.start_chunked()
    while True:
        exchange.chunk(b"x" * 65_536)
        await exchange.drain()


async def deaf(port: int) -> RawClient:
    """A client that has next to no room for what it is sent, and never reads."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=raw, limit=1024)
    return RawClient(reader, writer)


async def until_dropped(client: RawClient, request: bytes) -> None:
    """Asks for ever more of what it does not read, until the system's buffers are full, too."""
    while not client.writer.transport.is_closing():
        client.send(request)
        await asyncio.sleep(0.01)


@on_the_stand
async def test_who_reads_next_to_nothing_is_ended_at_both_listeners(stand: Stand) -> None:
    sluice = stand.sluice
    before = open_descriptors(sluice.pid)
    stand.upstream.handler = endless
    metrics = request_bytes("/metrics", b"", "GET")
    cases = ((sluice.port, stand.request()), (sluice.admin_port, metrics))
    clients = [(await deaf(port), request) for port, request in cases]
    async with asyncio.timeout(15):
        await asyncio.gather(*(until_dropped(*case) for case in clients))
    await stand.upstream.until(lambda: stand.upstream.inflight == 0)
    await eventually(lambda: open_descriptors(sluice.pid) <= before + 2)

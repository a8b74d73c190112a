"""Many clients released together, from a thread that does nothing else meanwhile.

    with Burst(sluice.port, 1000) as burst:
        await burst.send(request)
        refused = await burst.answers(994)

An event loop would spend more time on a thousand clients than the gateway does on their refusals,
and the refusals would look slow; here a client costs a few system calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import selectors
import socket
import time
from typing import TYPE_CHECKING, Self

from tests.support.raw_client import RawAnswer

if TYPE_CHECKING:
    from types import TracebackType

_HEAD_END = b"\r\n\r\n"
_SPARE_DESCRIPTORS = 200


class Burst:
    """So many connections, all open before anything is sent. Sends one request on each."""

    def __init__(self, port: int, clients: int) -> None:
        allow_descriptors(3 * clients)  # theirs, and those of servers in the test's process
        self._selector = selectors.DefaultSelector()
        self._sockets: list[socket.socket] = []
        self._received: dict[socket.socket, bytearray] = {}
        self._sent_at: dict[socket.socket, float] = {}
        self.delays_s: list[float] = []
        """From sending a request to having its whole answer, of all answers so far."""
        for _ in range(clients):
            client = socket.create_connection(("127.0.0.1", port))
            client.setblocking(False)
            self._sockets.append(client)
            self._received[client] = bytearray()
            self._selector.register(client, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._selector.close()
        for client in self._sockets:
            client.close()

    async def send(self, data: bytes) -> None:
        """Sends `data`, which must fit a socket's buffer, on every connection, without a pause."""
        await asyncio.to_thread(self._send, data)

    async def answers(self, count: int, within_s: float = 15.0) -> list[RawAnswer]:
        """The next so many whole answers, in the order in which they came, on whatever
        connections. Those that came by `within_s`, when they are fewer."""
        return await asyncio.to_thread(self._collect, count, time.monotonic() + within_s)

    def _send(self, data: bytes) -> None:
        for client in self._sockets:
            self._sent_at[client] = time.perf_counter()
            client.send(data)

    def _collect(self, count: int, deadline: float) -> list[RawAnswer]:
        answers: list[RawAnswer] = []
        while len(answers) < count and (left_s := deadline - time.monotonic()) > 0:
            for key, _ in self._selector.select(left_s):
                client = key.fileobj
                assert isinstance(client, socket.socket)
                if answer := self._read(client):
                    self.delays_s.append(time.perf_counter() - self._sent_at[client])
                    answers.append(answer)
        return answers

    def _read(self, client: socket.socket) -> RawAnswer | None:
        received = self._received[client]
        with contextlib.suppress(ConnectionResetError):
            received += client.recv(65_536)
        answer = parse_answer(received)
        if answer is not None:
            self._selector.unregister(client)
        return answer


def parse_answer(received: bytes | bytearray) -> RawAnswer | None:
    """A whole answer with a Content-Length; None while it is not all there."""
    head, found, body = bytes(received).partition(_HEAD_END)
    if not found:
        return None
    status_line, *lines = head.decode("latin-1").split("\r\n")
    pairs = [line.partition(":") for line in lines]
    fields = [(name, value.strip()) for name, _colon, value in pairs]
    answer = RawAnswer(int(status_line.split(" ")[1]), fields, body)
    answer.complete = len(body) == int(answer.header("content-length") or 0)
    return answer if answer.complete else None


def allow_descriptors(count: int) -> None:
    """Lets this process, and those that it starts from now on, have so many open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _SPARE_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))

"""An engine whose behaviour a test scripts: a real loopback server that can also misbehave.

    async with ScriptedUpstream(sse_stream(events=3, interval_s=0.1)) as upstream:
        ...                               # talk to upstream.url
        assert upstream.peak == 1

A handler is called once a request and says what goes on the wire, step by step:

    async def lies_about_its_length(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")
        exchange.close()

It is cancelled when its peer closes first, and that counts as an abort.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.request_reader import SeenRequest
from tests.support.scripted_answers import (
    Hold,
    close_on_receipt,
    empty_ok,
    json_answer,
    not_found,
    raw_answer,
    reset_on_receipt,
    silent,
    sse_stream,
    unauthorized,
)
from tests.support.scripted_exchange import Connection, Exchange, head

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from tests.support.scripted_answers import Handler

__all__ = [
    "Exchange",
    "Hold",
    "ScriptedUpstream",
    "SeenRequest",
    "close_on_receipt",
    "empty_ok",
    "head",
    "json_answer",
    "not_found",
    "raw_answer",
    "refusing_port",
    "reset_on_receipt",
    "silent",
    "sse_stream",
    "unauthorized",
    "unresponsive_port",
]

DEFAULT_PROBES: Mapping[bytes, Handler] = {b"/health": empty_ok, b"/metrics": not_found}


@dataclass(eq=False)
class ScriptedUpstream:
    """The server and what it saw. Enter it inside a running loop; leaving closes everything and
    raises what a handler raised."""

    handler: Handler = field(default_factory=json_answer)
    tls: ssl.SSLContext | None = None
    early: bool = False
    """Call the handler when the head is there; it awaits `exchange.body()` if it wants it."""
    idle_close_s: float | None = None
    """Close a keep-alive connection that has been idle for so long, as uvicorn does at 5.0."""
    bearer: str | None = None
    """Answer 401 as vLLM does, on every path, unless this bearer token comes."""
    probes: Mapping[bytes, Handler] = field(default_factory=lambda: DEFAULT_PROBES)
    """Handlers by path for requests that are not counted in `inflight`, `peak` and `seen`."""
    count_probes: bool = False
    behind_gateway: bool = False
    """Count nothing that has no `x-request-id`: the gateway gives one to all that it passes on, so
    these are its own questions, such as the one whether its key is good."""
    host: str = "127.0.0.1"
    port: int = 0

    inflight: int = field(default=0, init=False)
    peak: int = field(default=0, init=False)
    seen: list[SeenRequest] = field(default_factory=list, init=False)
    probed: list[SeenRequest] = field(default_factory=list, init=False)
    aborts: int = field(default=0, init=False)
    """Peers that closed before the answer was finished."""
    abort_times: list[float] = field(default_factory=list, init=False)
    connections_accepted: int = field(default=0, init=False)
    connections_open: int = field(default=0, init=False)
    pipelined: int = field(default=0, init=False)
    """Requests that came before the answer to the one in front of them was finished."""
    errors: list[BaseException] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._live: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def listen(self) -> None:
        """Starts accepting (again), on the same port if it has had one."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), self.host, self.port, ssl=self.tls, backlog=4096
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def stop_listening(self) -> None:
        """New connections are refused from now on; those that stand go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop_listening()
        self.reset_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the aborted transports report their end in the next loop step
        if exc is None and self.errors:
            raise self.errors[0]

    def seen_by(self, client_id: str) -> list[SeenRequest]:
        """The requests that carried `x-client-id: <client_id>`, in order of arrival."""
        return [request for request in self.seen if request.client_id == client_id]

    def forget(self) -> None:
        """Counts from zero again, between two tests that share this upstream."""
        assert self.inflight == 0, f"requests are running: {self!r}"
        self.seen.clear()
        self.probed.clear()
        self.abort_times.clear()
        self.peak = self.aborts = self.pipelined = 0

    def reset_all(self) -> None:
        """RST on every open connection, as when the engine's process is killed."""
        for connection in list(self._live):
            connection.reset()

    def close_idle(self) -> None:
        """FIN on every keep-alive connection that is not answering a request."""
        for connection in list(self._live):
            connection.close_if_idle()

    async def until(self, condition: Callable[[], bool], within_s: float = 5.0) -> None:
        """Waits for a state. Fails with what was counted instead when it does not come."""
        deadline = asyncio.get_running_loop().time() + within_s
        while not condition():
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"not reached within {within_s} s: {self!r}")
            await asyncio.sleep(0.002)

    def __repr__(self) -> str:
        return (
            f"<ScriptedUpstream inflight={self.inflight} peak={self.peak} seen={len(self.seen)} "
            f"aborts={self.aborts} accepted={self.connections_accepted} "
            f"open={self.connections_open}>"
        )

    # What the connections report (scripted_exchange.Owner).

    def connection_opened(self, connection: Connection) -> int:
        self.connections_accepted += 1
        self.connections_open += 1
        self._live.add(connection)
        return self.connections_accepted

    def connection_closed(self, connection: Connection) -> None:
        self.connections_open -= 1
        self._live.discard(connection)

    def request_started(self, exchange: Exchange) -> asyncio.Task[None]:
        request = exchange.request
        request.at = asyncio.get_running_loop().time()
        if self._is_probe(request):
            self.probed.append(request)
        else:
            exchange.counted = True
            self.seen.append(request)
            self.inflight += 1
            self.peak = max(self.peak, self.inflight)
        task = asyncio.ensure_future(self._answer(exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _is_probe(self, request: SeenRequest) -> bool:
        if self.behind_gateway and request.header(b"x-request-id") is None:
            return True
        return request.path in self.probes and not self.count_probes

    def answer_finished(self, exchange: Exchange) -> None:
        exchange.request.ended_at = asyncio.get_running_loop().time()
        if exchange.counted:
            self.inflight -= 1

    def answer_aborted(self, exchange: Exchange) -> None:
        exchange.request.ended_at = now = asyncio.get_running_loop().time()
        exchange.request.aborted = True
        if exchange.counted:
            self.inflight -= 1
            self.aborts += 1
            self.abort_times.append(now)

    def request_pipelined(self) -> None:
        self.pipelined += 1

    def _handler_for(self, request: SeenRequest) -> Handler:
        expected = None if self.bearer is None else f"Bearer {self.bearer}".encode()
        if expected is not None and request.header(b"authorization") != expected:
            return unauthorized
        return self.probes.get(request.path, self.handler)

    async def _answer(self, exchange: Exchange) -> None:
        try:
            await self._handler_for(exchange.request)(exchange)
            await exchange.finish_when_sent()
        except Exception as error:  # noqa: BLE001 - kept, and raised when the test leaves
            self.errors.append(error)
            exchange.reset()


@contextlib.contextmanager
def refusing_port() -> Iterator[int]:
    """A port on which nothing listens: connecting is refused at once."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@contextlib.asynccontextmanager
async def unresponsive_port(port: int = 0) -> AsyncIterator[int]:
    """A port whose accept queue is full, so that connecting hangs: the kernel drops the SYNs."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(0)
        for _ in range(4):
            filler = sockets.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        await asyncio.sleep(0.02)
        yield listener.getsockname()[1]

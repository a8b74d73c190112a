"""A streaming in-memory client for ASGI apps that behaves as uvicorn 0.54 does.

    exchange = AsgiClient(app).start("POST", b"/v1/completions", body=b"{}")
    head = await exchange.head()
    async for chunk in exchange:
        ...
    assert exchange.completed

The app runs as a task. A test may disconnect, stop reading, or upload slowly at any moment.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    App = Callable[[Any, Any, Any], Awaitable[None]]
    Upload = bytes | Sequence[bytes | float]
    Headers = Iterable[tuple[bytes, bytes]]


class NoResponseError(Exception):
    """The connection ended before any response head."""


@dataclass(frozen=True, slots=True)
class Head:
    """`headers` are raw pairs in the order sent."""

    status: int
    headers: list[tuple[bytes, bytes]]

    def header(self, name: str) -> str | None:
        """The first value of this header, its name in any case."""
        wanted = name.lower().encode()
        return next((v.decode("latin-1") for n, v in self.headers if n.lower() == wanted), None)


@dataclass(frozen=True, slots=True)
class Response:
    """A response that has ended; `completed` tells whether as its sender meant it to."""

    head: Head
    body: bytes
    completed: bool

    @property
    def status(self) -> int:
        return self.head.status

    def header(self, name: str) -> str | None:
        return self.head.header(name)


@dataclass(frozen=True, slots=True)
class AsgiClient:
    """Makes requests to one app; every request has a connection of its own."""

    app: App
    host: bytes = b"sluice.test"
    scheme: str = "http"
    peer: tuple[str, int] = ("192.0.2.1", 50000)
    state: dict[str, Any] = field(default_factory=dict)

    def start(
        self, method: str, target: bytes, headers: Headers = (), body: Upload = b""
    ) -> AsgiExchange:
        """Starts one request. `target` is the raw path and query.

        `body`: its bytes, all there at once; or pieces, where a number is a pause in seconds
        before the next piece, as in `[b"first", 2.5, b"last"]`.
        A `host` header, and the `content-length` of a body that is plain bytes, are added when
        they are missing; other bodies are chunked uploads.
        """
        fields = [(name.lower(), value) for name, value in headers]
        names = {name for name, _ in fields}
        if b"host" not in names:
            fields.insert(0, (b"host", self.host))
        if not names & {b"content-length", b"transfer-encoding"}:
            if not isinstance(body, bytes):
                fields.append((b"transfer-encoding", b"chunked"))
            elif body:
                fields.append((b"content-length", b"%d" % len(body)))
        return AsgiExchange(self.app, self._scope(method, target, fields), body)

    async def request(
        self, method: str, target: bytes, headers: Headers = (), body: Upload = b""
    ) -> Response:
        """One whole request and its whole answer."""
        return await self.start(method, target, headers, body).response()

    def _scope(
        self, method: str, target: bytes, headers: list[tuple[bytes, bytes]]
    ) -> dict[str, Any]:
        raw_path, _, query = target.partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "server": ("192.0.2.2", 8080),
            "client": self.peer,
            "scheme": self.scheme,
            "method": method,
            "root_path": "",
            "path": unquote_to_bytes(raw_path).decode("utf-8", "replace"),
            "raw_path": raw_path,
            "query_string": query,
            "headers": headers,
            "state": self.state.copy(),
            "extensions": {},
        }


class AsgiConnection:
    """Stands where the transport stands: the app may close() or abort() its client's connection.

    `closed` and `aborted` record which of the two it used.
    """

    refusal = None
    """What a server answers to a request that it cannot read; here it can read them all."""

    def __init__(self, exchange: AsgiExchange) -> None:
        self._exchange = exchange
        self.closed = False
        self.aborted = False

    def close(self) -> None:
        """Ends the connection once what was sent is read, which a stalled client delays."""
        self.closed = True
        self._exchange._hang_up(abort=False)

    def abort(self) -> None:
        """Ends the connection at once."""
        self.aborted = True
        self._exchange._hang_up(abort=True)

    def is_closing(self) -> bool:
        return self.closed or self.aborted or self._exchange.disconnected

    @property
    def ends_before_body(self) -> bool:
        return False  # there is no connection that could be kept

    def take_whole_body(self) -> bytes | None:
        return self._exchange.take_whole_body()

    def write_body(self, body: bytes, more_body: bool) -> bool:
        return self._exchange.write_body(body, more_body)

    async def room(self) -> None:
        await self._exchange.room()

    def end_body_by_closing(self) -> None:
        """Nothing is framed here."""


class AsgiExchange:
    """One request and its response, seen from the client.

    `completed`: the whole response came. `disconnected`: the connection is gone, whoever ended it.
    `task`: the app's task. `upload_is_done`: the last byte of the request is there.
    `sent_after_disconnect` counts messages that went nowhere.
    """

    def __init__(self, app: App, scope: dict[str, Any], body: Upload) -> None:
        self._loop = asyncio.get_running_loop()
        self._method = scope["method"]
        self._uploaded = bytearray()
        self._upload_left: deque[bytes | float] = deque([body] if isinstance(body, bytes) else body)
        self.upload_is_done = False
        self._unread: deque[bytes] = deque()
        self._length_left: int | None = None
        self._head: Head | None = None
        self._reading = True
        self._room_bytes = 0
        self._message_came = asyncio.Event()
        self._may_send = asyncio.Event()
        self._may_send.set()
        self._news = asyncio.Event()
        self.completed = False
        self.disconnected = False
        self.sent_after_disconnect = 0
        self.connection = AsgiConnection(self)
        scope["extensions"]["sluice.connection"] = self.connection
        self._upload()
        self.task = self._loop.create_task(self._run(app, scope), name=f"app {scope['raw_path']!r}")

    # What the test does

    async def head(self) -> Head:
        """Status and headers, as soon as they are there.

        Raises NoResponseError when the connection ended first, and what the app raised.
        """
        while self._head is None:
            if self._is_over():
                await self.ended()
                raise NoResponseError
            await self._wait_for_news()
        return self._head

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Body chunks as they come, until the body ends or breaks off: `completed` tells which."""
        while chunk := await self.next_chunk():
            yield chunk

    async def next_chunk(self) -> bytes:
        """The next body chunk, as soon as it is there; b"" once the body ended or broke off."""
        while not self._unread:
            if self._is_over():
                return b""
            await self._wait_for_news()
        chunk = self._unread.popleft()
        self._let_send()
        return chunk

    @property
    def has_head(self) -> bool:
        """Status and headers are there."""
        return self._head is not None

    @property
    def has_unread(self) -> bool:
        """A body chunk is there already."""
        return bool(self._unread)

    async def read(self) -> bytes:
        """All of the body that is still unread."""
        return b"".join([chunk async for chunk in self])

    async def response(self) -> Response:
        """The whole answer, once it has ended. Raises what head() raises."""
        head = await self.head()
        content = await self.read()
        await self.ended()
        return Response(head, content, self.completed)

    async def ended(self) -> None:
        """Waits until the app has returned. Raises what it raised."""
        await asyncio.wait([self.task])
        self.task.result()

    @property
    def broken_off(self) -> bool:
        """The connection ended before the response did."""
        return self.disconnected and not self.completed

    def disconnect(self) -> None:
        """The client leaves."""
        self._lose_connection()

    def stop_reading(self, room_bytes: int = 0) -> None:
        """send() blocks while `room_bytes` or more are unread: what buffers on the way take in."""
        self._reading = False
        self._room_bytes = room_bytes
        self._let_send()

    def resume_reading(self) -> None:
        self._reading = True
        self._let_send()
        if self.connection.closed:
            self._hang_up(abort=False)

    # What the app sees

    async def _receive(self) -> dict[str, Any]:
        if not self.disconnected and not self.completed:
            await self._message_came.wait()
            self._message_came.clear()
        if self.disconnected or self.completed:
            return {"type": "http.disconnect"}
        body, self._uploaded = bytes(self._uploaded), bytearray()
        return {"type": "http.request", "body": body, "more_body": not self.upload_is_done}

    def take_whole_body(self) -> bytes | None:
        if self.disconnected or not self.upload_is_done:
            return None
        self._message_came.clear()
        body, self._uploaded = bytes(self._uploaded), bytearray()
        return body

    def write_body(self, body: bytes, more_body: bool) -> bool:
        self._put({"type": "http.response.body", "body": body, "more_body": more_body})
        return self.disconnected or self._may_send.is_set()

    async def room(self) -> None:
        if not self.disconnected:
            await self._may_send.wait()

    async def _send(self, message: dict[str, Any]) -> None:
        await self.room()
        self._put(message)

    def _put(self, message: dict[str, Any]) -> None:
        if self.disconnected or self.connection.is_closing():
            self.sent_after_disconnect += 1
        elif self._head is None:
            self._take_head(message)
        else:
            self._take_body(message)
        self._news.set()

    def _take_head(self, message: dict[str, Any]) -> None:
        if message["type"] != "http.response.start":
            raise RuntimeError(f"expected http.response.start, not {message['type']}")
        self._head = Head(message["status"], [(n, v) for n, v in message.get("headers", [])])
        length = self._head.header("content-length")
        if length is not None and self._method != "HEAD":
            self._length_left = int(length)

    def _take_body(self, message: dict[str, Any]) -> None:
        if message["type"] != "http.response.body" or self.completed:
            raise RuntimeError(f"unexpected {message['type']}, response completed={self.completed}")
        body, more_body = bytes(message.get("body", b"")), message.get("more_body", False)
        self._check_length(len(body), more_body)
        if body:
            self._unread.append(body)
        if not more_body:
            self.completed = True
            self._message_came.set()
        self._let_send()

    def _check_length(self, size: int, more_body: bool) -> None:
        if self._length_left is None:
            return
        self._length_left -= size
        if self._length_left < 0 or (self._length_left > 0 and not more_body):
            raise RuntimeError(f"the body misses its content-length by {-self._length_left} bytes")

    # How it works

    async def _run(self, app: App, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
        finally:
            if not self.completed:  # uvicorn closes a connection whose response was cut short
                self._lose_connection()
            self._news.set()

    def _upload(self) -> None:
        """Takes pieces until the next pause; the last piece and its end come as one."""
        if self.disconnected:
            return
        while self._upload_left:
            piece = self._upload_left.popleft()
            if not isinstance(piece, bytes):
                self._loop.call_later(piece, self._upload)
                break
            self._uploaded += piece
        else:
            self.upload_is_done = True
        if self._uploaded or self.upload_is_done:
            self._message_came.set()

    def _is_over(self) -> bool:
        return self.completed or self.disconnected or self.task.done()

    async def _wait_for_news(self) -> None:
        self._news.clear()
        await self._news.wait()

    def _let_send(self) -> None:
        unread_bytes = sum(map(len, self._unread))
        if self._reading or self.disconnected or unread_bytes < self._room_bytes:
            self._may_send.set()
        else:
            self._may_send.clear()

    def _hang_up(self, *, abort: bool) -> None:
        if abort and not self._reading:
            self._unread.clear()  # what a reading client has not looked at yet did arrive
        if abort or self._reading or not self._unread:
            self._loop.call_soon(self._lose_connection)

    def _lose_connection(self) -> None:
        self.disconnected = True
        self._message_came.set()
        self._may_send.set()
        self._news.set()

"""One HTTP exchange over ASGI: the body in, an answer or a stream of events out, and an eye on the
client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

import msgspec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, MutableMapping
    from types import TracebackType

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    Header = tuple[bytes, bytes]

# vLLM answers through a CORS middleware, which adds this to everything.
_VARY = (b"vary", b"Origin")
_EVENT_STREAM = b"text/event-stream; charset=utf-8"
# A request that is over sooner never pays for a task that watches its client.
_WATCH_AFTER_S = 0.02

encode_json = msgspec.json.Encoder().encode


class ClientGoneError(Exception):
    """The client left before its request was complete."""


class Exchange:
    """`path` is decoded, as ASGI has it. `body` is there after read_body()."""

    __slots__ = ("_headers", "_receive", "_send", "body", "method", "path")

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.body = b""
        self._headers: Iterable[Header] = scope["headers"]
        self._receive = receive
        self._send = send

    def header(self, name: bytes) -> str | None:
        """The first value of a header; `name` in lower case."""
        for field, value in self._headers:
            if field == name:
                return value.decode("latin-1")
        return None

    async def read_body(self) -> None:
        """Raises ClientGoneError."""
        chunks = []
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            chunks.append(message.get("body", b""))
            more = message.get("more_body", False)
        self.body = chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def watch(self, gone: Callable[[], None]) -> ClientWatch:
        """Inside its `with`, `gone` is called once when the client leaves. The body must have been
        read."""
        return ClientWatch(self._receive, gone)

    async def json(self, status: int, payload: object, headers: Iterable[Header] = ()) -> None:
        await self.answer(status, encode_json(payload), b"application/json", headers)

    async def answer(
        self,
        status: int,
        body: bytes = b"",
        content_type: bytes | None = None,
        headers: Iterable[Header] = (),
    ) -> None:
        fields = [*headers, (b"content-length", b"%d" % len(body))]
        if content_type is not None:
            fields.append((b"content-type", content_type))
        fields.append(_VARY)
        await self._send({"type": "http.response.start", "status": status, "headers": fields})
        await self._send({"type": "http.response.body", "body": body})

    async def start_events(self) -> None:
        """The head of an event stream goes out at once, long before the first token."""
        headers = [(b"content-type", _EVENT_STREAM), _VARY]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def event(self, payload: object, name: str | None = None) -> None:
        """One server-sent event, in one message."""
        line = b"data: " + encode_json(payload) + b"\n\n"
        if name is not None:
            line = b"event: " + name.encode() + b"\n" + line
        await self._send({"type": "http.response.body", "body": line, "more_body": True})

    async def end_events(self, last: bytes = b"data: [DONE]\n\n") -> None:
        if last:
            await self._send({"type": "http.response.body", "body": last, "more_body": True})
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


class ClientWatch:
    """Awaits `receive()` beside the work; after the body, it has nothing to say but goodbye."""

    __slots__ = ("_gone", "_listener", "_receive", "_timer")

    def __init__(self, receive: Receive, gone: Callable[[], None]) -> None:
        self._receive = receive
        self._gone = gone
        self._timer: asyncio.TimerHandle | None = None
        self._listener: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self._timer = asyncio.get_running_loop().call_later(_WATCH_AFTER_S, self._start_listening)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._listener.cancel()

    def _start_listening(self) -> None:
        self._listener = asyncio.get_running_loop().create_task(self._listen())

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone()

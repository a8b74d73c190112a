"""An engine as an ASGI app whose answers a test scripts, for virtual time.

    engine = ScriptedApp(stream(events=3, interval_s=0.1))

It is the in-memory twin of the scripted upstream, which does the same on real sockets.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.virtual_time import now

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.types import Message, Receive, Scope, Send

    Handler = Callable[["Call"], Awaitable[None]]
    Fields = Sequence[tuple[bytes, bytes]]

JSON = (b"content-type", b"application/json")
SSE = (b"content-type", b"text/event-stream; charset=utf-8")
DONE = b"data: [DONE]\n\n"


class BreaksOffError(Exception):
    """Raised by a handler: the engine's connection ends without the rest of the answer."""


@dataclass(eq=False)
class Call:
    """One request as the engine got it, and the way to answer it. Moments in virtual seconds."""

    scope: Scope
    body: bytes
    send: Send
    began_at: float
    ended_at: float | None = None
    aborted: bool = False

    @property
    def target(self) -> bytes:
        query = self.scope["query_string"]
        return self.scope["raw_path"] + (b"?" + query if query else b"")

    @property
    def client_id(self) -> str | None:
        """What the test called this request, in `x-client-id`."""
        return self.header("x-client-id")

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return list(self.scope["headers"])

    def header(self, name: str) -> str | None:
        wanted = name.encode()
        return next((value.decode() for key, value in self.headers if key == wanted), None)

    async def respond(
        self, status: int = 200, body: bytes = b'{"ok":true}', headers: Fields = (JSON,)
    ) -> None:
        """A whole answer with its Content-Length."""
        length = (b"content-length", b"%d" % len(body))
        await self.start(status, [*headers, length])
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    async def start(self, status: int = 200, headers: Fields = (SSE,)) -> None:
        head = {"type": "http.response.start", "status": status, "headers": list(headers)}
        await self.send(head)

    async def chunk(self, data: bytes) -> None:
        await self.send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})


async def answer(call: Call) -> None:
    """At once."""
    await call.respond()


@dataclass
class ScriptedApp:
    """`seen` lists every call in order of arrival, `peak` is the most there were at once.

    The handler is cancelled when its peer leaves, and the call is then `aborted`.
    """

    handler: Handler = answer
    seen: list[Call] = field(default_factory=list, init=False)
    in_flight: int = field(default=0, init=False)
    peak: int = field(default=0, init=False)

    @property
    def aborts(self) -> int:
        return sum(call.aborted for call in self.seen)

    def seen_ids(self) -> list[str | None]:
        return [call.client_id for call in self.seen]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_look(message: Message) -> None:
            if message["type"] == "http.response.body" and not message["more_body"]:
                self._ends(call)
            await send(message)

        call = Call(scope, await _read_body(receive), send_and_look, now())
        self.seen.append(call)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            await self._answer(call, receive)
        except BreaksOffError:
            pass  # returning without the end of the answer ends the connection
        finally:
            self._ends(call)

    def _ends(self, call: Call) -> None:
        """With the last byte, not with what the app still does after it."""
        if call.ended_at is None:
            self.in_flight -= 1
            call.ended_at = now()

    async def _answer(self, call: Call, receive: Receive) -> None:
        work = asyncio.ensure_future(self.handler(call))
        left = asyncio.ensure_future(_disconnected(receive))
        await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
        call.aborted = not work.done()
        for task in (work, left):
            task.cancel()
        await asyncio.wait({work, left})
        if not work.cancelled():
            work.result()


@dataclass
class Hold:
    """Holds every call until `release()`, then answers it. `start`: a first event comes before."""

    then: Handler = answer
    start: bool = False
    _open: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def release(self) -> None:
        self._open.set()

    async def __call__(self, call: Call) -> None:
        if self.start:
            await call.start()
            await call.chunk(b'data: {"n": 0}\n\n')
        await self._open.wait()
        if self.start:
            await call.chunk(DONE)
            await call.end()
        else:
            await self.then(call)


def after(delay_s: float, then: Handler = answer) -> Handler:
    """Silent for a while, then as told."""

    async def wait_first(call: Call) -> None:
        await asyncio.sleep(delay_s)
        await then(call)

    return wait_first


def responds(status: int, body: bytes = b'{"ok":true}', headers: Fields = (JSON,)) -> Handler:
    async def respond(call: Call) -> None:
        await call.respond(status, body, headers)

    return respond


def stream(
    events: int, interval_s: float = 0.0, *, breaks_off: bool = False, headers: Fields = (SSE,)
) -> Handler:
    """`data: {"n": 0}` and so on, one every `interval_s`, then [DONE], or the engine's death."""

    async def send_events(call: Call) -> None:
        await call.start(headers=headers)
        for number in range(events):
            await call.chunk(b'data: {"n": %d}\n\n' % number)
            await asyncio.sleep(interval_s)
        if breaks_off:
            raise BreaksOffError
        await call.chunk(DONE)
        await call.end()

    return send_events


async def silent(_call: Call) -> None:
    """Never answers."""
    await asyncio.Event().wait()


async def dies(_call: Call) -> None:
    """The connection ends instead of an answer."""
    raise BreaksOffError


def error_of(body: bytes) -> dict[str, Any]:
    """The `error` object of an answer in OpenAI form."""
    decoded = json.loads(body)
    assert list(decoded) == ["error"]
    error: dict[str, Any] = decoded["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


def event_error(body: bytes) -> dict[str, Any]:
    """The `error` object of the SSE event at the end of a body, which an empty line sets apart."""
    before, _, data = body.rpartition(b"data: ")
    assert before.endswith(b"\n\n")
    assert data.endswith(b"\n\n")
    return error_of(data)


async def _read_body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return body


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

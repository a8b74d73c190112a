"""Passes the engine's answer on to the client, chunk for chunk, and makes a failure look like one.

Backpressure goes through: while the client's connection has no room the engine's is not read.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.edge.client_connection import client_connection
from proxy.edge.engine import LifeSign
from proxy.edge.response_cycle import BODY_FOLLOWS
from proxy.upstream.header_rules import has_field

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from proxy.edge.client_connection import ClientConnection, ConnectionRefusal
    from proxy.edge.token_meter import AnswerReader
    from proxy.upstream.port import UpstreamResponse


class BrokenConnection(Exception):
    """Raised out of the application where a server gives no other way to break an answer off."""


class Relay:
    """One answer on its way to the client. Counts what passed, for the records."""

    __slots__ = (
        "_at_end",
        "_clock",
        "_closing",
        "_life_sign",
        "_scope",
        "_send",
        "_write_body",
        "body_bytes",
        "first_byte_at",
        "followed_by",
        "is_complete",
        "speaks_sse",
        "started",
    )

    def __init__(self, scope: Scope, send: Send, clock: Callable[[], float]) -> None:
        self._scope = scope
        self._send = send
        self._clock = clock
        self._closing: ClientConnection | None = None  # its end will be the body's end
        self.started = False
        self.is_complete = False
        """The last piece was written; nothing more can be said."""
        self.speaks_sse = False
        """Whether an event may be added to the body: plain SSE whose length nobody announced."""
        self.body_bytes = 0
        self.first_byte_at: float | None = None
        self.followed_by: AnswerReader | None = None
        """Who reads along."""

    async def pass_on(
        self,
        response: UpstreamResponse,
        headers: list[tuple[bytes, bytes]],
        at_end: Callable[[], None],
        life_sign: LifeSign | None = None,
    ) -> None:
        """Sends head and body. `headers` are final; a Content-Length among them is the engine's.
        `at_end` is called before the last piece goes out: with it the request is over for the
        server, which says so to whoever listens as if the client had left. `life_sign` sees the
        head and every piece of the body.

        Raises UpstreamError from the engine's side; what is sent by then stays sent.
        """
        self._life_sign = life_sign = life_sign or LifeSign()
        life_sign.seen = True
        announced = has_field(headers, b"content-length")
        if not announced and self._scope["http_version"] == "1.0":
            self._end_body_by_closing()
        self.speaks_sse = not announced and _is_plain_sse(headers)
        await self._send(
            {
                "type": "http.response.start",
                "status": response.status,
                "headers": headers,
                BODY_FOLLOWS: response.is_readable,
            }
        )
        self.started = True
        connection = client_connection(self._scope)
        if connection is None:
            await self._send_body(response)
        else:
            self._write_body, self._at_end = connection.write_body, at_end
            await response.pass_to(self._take, connection.room)

    def _take(self, chunk: bytes, is_last: bool) -> bool:
        """Writes a piece of the body in the very step in which the engine's bytes came."""
        if self.first_byte_at is None:
            self.first_byte_at = self._clock()
        self.body_bytes += len(chunk)
        self._life_sign.seen = True
        if self.followed_by is not None:
            self.followed_by.feed(chunk)
        if is_last:
            self.is_complete = True
            self._at_end()
        return self._write_body(chunk, not is_last)

    async def _send_body(self, response: UpstreamResponse) -> None:
        """For a server that is not ours: by ASGI events."""
        more_body = True
        while more_body:
            chunk = await response.read()
            if self.first_byte_at is None:
                self.first_byte_at = self._clock()
            self.body_bytes += len(chunk)
            self._life_sign.seen = True
            if self.followed_by is not None:
                self.followed_by.feed(chunk)
            # With the engine's last byte the answer is over; saying so at once saves a send.
            more_body = bool(chunk) and not response.is_exhausted
            await self._send({"type": "http.response.body", "body": chunk, "more_body": more_body})

    def _end_body_by_closing(self) -> None:
        # uvicorn would send chunks, which an HTTP/1.0 client cannot read.
        self._closing = client_connection(self._scope)
        if self._closing is not None:
            self._closing.end_body_by_closing()

    @property
    def refusal(self) -> ConnectionRefusal | None:
        """What the server itself has answered, when it could not read the rest of the request."""
        connection = client_connection(self._scope)
        return connection.refusal if connection is not None else None

    async def drop(self, receive: Receive) -> None:
        """Drops a client that does not stop sending, whose answer is not ended.

        Waits until it is gone, or the server would log an error for what is the client's doing.
        """
        connection = client_connection(self._scope)
        if connection is not None:
            connection.abort()
            await _disconnected(receive)

    async def break_off(self, receive: Receive, last_words: bytes, timeout_s: float) -> None:
        """Ends a started answer so that it is not complete on the wire.

        `last_words` (an SSE error event, or nothing) are sent first. Waits until the connection is
        gone, at most `timeout_s`, so that the server has nothing left to say about the request.
        """
        connection = client_connection(self._scope)
        if connection is None:
            raise BrokenConnection
        try:
            async with asyncio.timeout(timeout_s):
                if last_words:
                    await self._send(
                        {"type": "http.response.body", "body": last_words, "more_body": True}
                    )
                if self._closing is not None:
                    connection.abort()
                else:
                    connection.close()
                await _disconnected(receive)
        except TimeoutError:
            connection.abort()
            await _disconnected(receive)


def _is_plain_sse(headers: list[tuple[bytes, bytes]]) -> bool:
    types = [value for name, value in headers if name.lower() == b"content-type"]
    encoded = any(name.lower() == b"content-encoding" for name, _ in headers)
    return bool(types) and types[0].lower().startswith(b"text/event-stream") and not encoded


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

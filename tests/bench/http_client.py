"""A client that costs little: one connection, one request at a time, the answer's status."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import httptools


def chat_request(stream: bool = False) -> bytes:
    messages = [{"role": "user", "content": "Hello, how are you?"}]
    # `"stream":true` is what the fake engine looks for, and how the routers write it anew.
    fields = {"model": "tiny", "stream": stream, "messages": messages}
    body = json.dumps(fields, separators=(",", ":")).encode()
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        b"authorization: Bearer sk-test\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    )


def get_request(path: str) -> bytes:
    return b"GET %b HTTP/1.1\r\nhost: bench\r\n\r\n" % path.encode()


class Client(asyncio.Protocol):
    """Made by connect(). After a ConnectionError from ask() it is of no more use."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[int] | None = None

    @classmethod
    async def connect(cls, port: int) -> Client:
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(cls, "127.0.0.1", port)
        return client

    async def ask(self, request: bytes) -> int:
        """Sends the request and returns the answer's status once the whole answer is there."""
        if not self.is_open:
            raise ConnectionResetError
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    def close(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one by shape only

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if not self._parser.should_keep_alive():
            self._transport.close()
        if self._answer is not None and not self._answer.done() and status >= 200:
            self._answer.set_result(status)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError())

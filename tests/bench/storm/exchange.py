"""One request on a connection of its own: what came back, when, and whether all of it came."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import httptools

if TYPE_CHECKING:
    from collections.abc import Mapping

MODEL = "tiny"
TOKENS = 200
_PROMPT = "hello world " * 20


@dataclass(frozen=True, slots=True)
class Answer:
    """Status 0: no whole answer. Times are in seconds since the exchange began, to connect is part
    of them. Header names are in lower case."""

    status: int
    first_byte_s: float = 0.0
    whole_s: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


NO_ANSWER = Answer(0)


def completion_request(tokens: int, headers: Mapping[str, str] | None = None) -> bytes:
    """Exactly so many tokens are generated: the end-of-sequence token is ignored."""
    fields = {"model": MODEL, "prompt": _PROMPT, "max_tokens": tokens, "ignore_eos": True}
    body = json.dumps(fields).encode()
    sent = {
        "host": "storm",
        "authorization": "Bearer sk-storm",
        "content-type": "application/json",
        "content-length": str(len(body)),
        **(headers or {}),
    }
    return _head("POST /v1/completions", sent) + body


def get_request(path: str) -> bytes:
    return _head(f"GET {path}", {"host": "storm"})


def _head(what: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{what} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


async def exchange(port: int, request: bytes, timeout_s: float) -> Answer:
    """Gives up after `timeout_s` and closes the connection, as a client does. Never raises for what
    the other side does."""
    loop = asyncio.get_running_loop()
    reply = _Reply(loop)
    try:
        async with asyncio.timeout(timeout_s):
            await loop.create_connection(lambda: reply, "127.0.0.1", port)
            reply.send(request)
            return await reply.answer
    except (OSError, TimeoutError):
        return NO_ANSWER
    finally:
        reply.close()


class _Reply(asyncio.Protocol):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.answer: asyncio.Future[Answer] = loop.create_future()
        # Not the loop's clock: uvloop's ticks in milliseconds.
        self._began = loop.time()
        self._first_byte_s: float | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one by shape only

    def send(self, request: bytes) -> None:
        if self._transport is not None:
            self._transport.write(request)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._first_byte_s is None:
            self._first_byte_s = time.monotonic() - self._began
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._settle(NO_ANSWER)

    def connection_lost(self, exc: Exception | None) -> None:
        ends_with_connection = (
            self._headers
            and exc is None
            and not self._headers.keys() & {"content-length", "transfer-encoding"}
        )
        self._settle(self._whole() if ends_with_connection else NO_ANSWER)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin1").lower()] = value.decode("latin1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._settle(self._whole())

    def _whole(self) -> Answer:
        return Answer(
            self._parser.get_status_code(),
            self._first_byte_s or 0.0,
            time.monotonic() - self._began,
            self._headers,
            b"".join(self._body),
        )

    def _settle(self, answer: Answer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

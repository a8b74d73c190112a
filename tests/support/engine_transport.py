"""An engine as the poller sees it, in memory: what it answers to each path, changeable at any time.

engine = ScriptedEngine({"/health": ok()})
engine.answers["/health"] = refused
"""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    Answering = Callable[[httpx.Request], Awaitable[httpx.Response]]


class ScriptedEngine(httpx.AsyncBaseTransport):
    """A path without an answer is a 404, as vLLM's are. `asked` lists every request."""

    def __init__(self, answers: Mapping[str, Answering]) -> None:
        self.answers = dict(answers)
        self.asked: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return await self.answers.get(request.url.path, status(404))(request)

    def count(self, path: str) -> int:
        return sum(request.url.path == path for request in self.asked)


def status(code: int, body: bytes = b"") -> Answering:
    """Answers at once."""

    async def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(code, stream=httpx.ByteStream(body))

    return answer


async def sluice(_: httpx.Request) -> httpx.Response:
    """No engine, but a gateway: what it has no route for."""
    body = httpx.ByteStream(b'{"error": {"code": "unknown_path"}}')
    return httpx.Response(404, headers={"x-sluice-reason": "unknown_path"}, stream=body)


def ok(body: bytes = b"") -> Answering:
    return status(200, body)


def late(after_s: float, code: int = 200, body: bytes = b"") -> Answering:
    """Answers after a while."""

    async def answer(_: httpx.Request) -> httpx.Response:
        await asyncio.sleep(after_s)
        return httpx.Response(code, stream=httpx.ByteStream(body))

    return answer


def fails_with(number: int) -> Answering:
    """The connection attempt ends in a system error, wrapped as httpx wraps it."""

    async def answer(request: httpx.Request) -> httpx.Response:
        try:
            raise OSError("all attempts failed") from OSError(number, os.strerror(number))
        except OSError as error:
            raise httpx.ConnectError(str(error), request=request) from error

    return answer


refused = fails_with(errno.ECONNREFUSED)


async def garbage(request: httpx.Request) -> httpx.Response:
    """Something listens, but does not speak HTTP."""
    raise httpx.RemoteProtocolError("illegal status line", request=request)

"""An engine that answers with prepared bytes, faster than any proxy under test.

    python -m tests.bench.fake_upstream PORT [--answer-after S] [--events-per-s N]

A request whose body says `"stream":true` gets server-sent events until it goes away: one at once,
then N a second; with N = 0 the stream then stays open and silent. Any other gets a small JSON
answer, S seconds later. Enough of HTTP/1.1 for well-formed load, and no more.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
from dataclasses import dataclass
from typing import cast

import uvloop

_BODY = (
    b'{"id":"chatcmpl-0","object":"chat.completion","created":0,"model":"tiny","choices":[{"index":'
    b'0,"message":{"role":"assistant","content":"Hello there."},"finish_reason":"stop"}],"usage":'
    b'{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}'
)
_ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(_BODY)
) + _BODY
_EVENT = (
    b'data: {"id":"chatcmpl-0","object":"chat.completion.chunk","created":0,"model":"tiny",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}\n\n'
)
_CHUNK = b"%x\r\n%b\r\n" % (len(_EVENT), _EVENT)
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_LENGTH_REQUIRED = b"HTTP/1.1 411 Length Required\r\ncontent-length: 0\r\n\r\n"
_END_OF_HEAD = b"\r\n\r\n"
_ASKS_FOR_A_STREAM = b'"stream":true'
_LARGE_BODY_BYTES = 16_384
_SLOT_S = 0.001


@dataclass(frozen=True)
class EngineOptions:
    answer_after_s: float = 0.0
    events_per_s: int = 0

    def arguments(self) -> tuple[str, ...]:
        after = f"--answer-after={self.answer_after_s}"
        return (after, f"--events-per-s={self.events_per_s}")


class _Metronome:
    """Sends every stream its events, the streams spread evenly over the time between two.

    One timer for all: it goes round slots of a millisecond, and a stream is in one of them.
    """

    def __init__(self, events_per_s: int) -> None:
        count = round(1 / _SLOT_S / events_per_s) if events_per_s else 1
        self._slots: list[set[asyncio.Transport]] = [set() for _ in range(count)]
        self._is_silent = not events_per_s
        self._next = 0

    async def run(self) -> None:
        if self._is_silent:
            return
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += _SLOT_S
            await asyncio.sleep(max(due - loop.time(), 0))
            for transport in self._slots[self._next]:
                transport.write(_CHUNK)
            self._next = (self._next + 1) % len(self._slots)

    def add(self, transport: asyncio.Transport) -> None:
        min(self._slots, key=len).add(transport)

    def discard(self, transport: asyncio.Transport) -> None:
        for slot in self._slots:
            slot.discard(transport)


class _PreparedAnswers(asyncio.Protocol):
    """Answers once a head and its Content-Length of body are there."""

    def __init__(self, options: EngineOptions, metronome: _Metronome) -> None:
        self._after_s = options.answer_after_s
        self._metronome = metronome
        self._buffer = b""
        self._to_skip = 0  # of a body so large that it is not kept

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one by shape only

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        self._metronome.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._to_skip:
            skipped = min(self._to_skip, len(data))
            self._to_skip -= skipped
            if self._to_skip:
                return
            self._answer()
            data = data[skipped:]
        self._buffer += data
        while (end := self._buffer.find(_END_OF_HEAD)) >= 0:
            length = _content_length(self._buffer[:end])
            if length < 0:
                self._transport.write(_LENGTH_REQUIRED)
                self._transport.close()
                return
            missing = end + 4 + length - len(self._buffer)
            if missing > 0:
                if length > _LARGE_BODY_BYTES:
                    self._to_skip, self._buffer = missing, b""
                return
            body = self._buffer[end + 4 : end + 4 + length]
            self._buffer = self._buffer[end + 4 + length :]
            if _ASKS_FOR_A_STREAM in body:
                self._transport.write(_STREAM_HEAD + _CHUNK)
                self._metronome.add(self._transport)
            else:
                self._answer()

    def _answer(self) -> None:
        if self._after_s:
            asyncio.get_running_loop().call_later(self._after_s, self._write_answer)
        else:
            self._transport.write(_ANSWER)

    def _write_answer(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(_ANSWER)


def _content_length(head: bytes) -> int:
    """0 when there is none, -1 when the body comes in chunks."""
    lowered = head.lower()
    at = lowered.find(b"content-length:")
    if at >= 0:
        return int(lowered[at + 15 :].split(b"\r\n", 1)[0])
    return -1 if b"transfer-encoding:" in lowered else 0


async def _main(port: int, options: EngineOptions) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    loop = asyncio.get_running_loop()
    metronome = _Metronome(options.events_per_s)
    server = await loop.create_server(
        lambda: _PreparedAnswers(options, metronome), "127.0.0.1", port, backlog=4096
    )
    await asyncio.gather(server.serve_forever(), metronome.run())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("port", type=int)
    parser.add_argument("--answer-after", type=float, default=0.0, metavar="S")
    parser.add_argument("--events-per-s", type=int, default=0, metavar="N")
    arguments = parser.parse_args()
    options = EngineOptions(arguments.answer_after, arguments.events_per_s)
    uvloop.run(_main(arguments.port, options))

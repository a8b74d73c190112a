"""An engine that answers at once with prepared bytes, faster than any proxy under test.

python -m tests.bench.fake_upstream PORT
"""

from __future__ import annotations

import asyncio
import sys
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
_END_OF_HEAD = b"\r\n\r\n"


class _PreparedAnswers(asyncio.Protocol):
    """Answers once a head and its Content-Length of body are there; enough for well-formed load."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one by shape only
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(_END_OF_HEAD)) >= 0:
            length = _content_length(self._buffer[:end])
            if len(self._buffer) < end + 4 + length:
                return
            self._buffer = self._buffer[end + 4 + length :]
            self._transport.write(_ANSWER)


def _content_length(head: bytes) -> int:
    lowered = head.lower()
    at = lowered.find(b"content-length:")
    return int(lowered[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0


async def _main(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_PreparedAnswers, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1])))

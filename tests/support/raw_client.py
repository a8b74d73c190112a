"""Plain sockets towards the gateway: what is on the wire, and clients that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from dataclasses import dataclass, field
from typing import Literal, Self

Headers = dict[str, str]
Farewell = Literal["fin", "rst"]


@dataclass
class RawAnswer:
    """What came back on the wire. `complete` says whether the framing was finished."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""
    complete: bool = False

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def error(self) -> dict[str, object]:
        error: dict[str, object] = json.loads(self.body)["error"]
        return error


def request_bytes(
    target: str = "/v1/completions",
    body: bytes | dict[str, object] = b"{}",
    method: str = "POST",
    headers: Headers | None = None,
) -> bytes:
    """A request with a Content-Length (unless `headers` frame it otherwise)."""
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"Host": "gateway", "Content-Type": "application/json", **(headers or {})}
    if "Transfer-Encoding" not in fields and "Content-Length" not in fields:
        fields["Content-Length"] = str(len(payload))
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + payload


@dataclass
class RawClient:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    answers: list[RawAnswer] = field(default_factory=list)

    @classmethod
    async def connect(cls, port: int, host: str = "127.0.0.1") -> Self:
        reader, writer = await asyncio.open_connection(host, port, limit=1 << 22)
        return cls(reader, writer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def ask(self, data: bytes) -> RawAnswer:
        """Sends, and reads one whole answer."""
        self.send(data)
        return await self.answer()

    async def head(self) -> RawAnswer:
        """Reads up to the end of the next final response head."""
        while True:
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            status = int(lines[0].split(" ")[1])
            if status >= 200:
                break
        pairs = [line.partition(":") for line in lines[1:] if line]
        answer = RawAnswer(status, [(name, value.strip()) for name, _, value in pairs])
        self.answers.append(answer)
        return answer

    async def chunk(self, answer: RawAnswer) -> bytes:
        """The next chunk of a chunked body; b"" for the last one."""
        size = int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16)
        data = (await self.reader.readexactly(size + 2))[:-2]
        answer.body += data
        answer.complete = size == 0
        return data

    async def answer(self, head_request: bool = False) -> RawAnswer:
        """The next answer, whole, or as much of it as came before the connection ended."""
        answer = await self.head()
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await self._read_body(answer, head_request)
        return answer

    async def _read_body(self, answer: RawAnswer, head_request: bool) -> None:
        length = answer.header("content-length")
        if head_request or answer.status in (204, 304):
            answer.complete = True
        elif answer.header("transfer-encoding") is not None:
            while await self.chunk(answer):
                pass
        elif length is not None:
            try:
                answer.body = await self.reader.readexactly(int(length))
            except asyncio.IncompleteReadError as broken:
                answer.body = broken.partial
                raise
            answer.complete = True
        else:
            answer.body = await self.reader.read()
            answer.complete = True

    async def rest(self) -> tuple[bytes, bool]:
        """What comes until the connection ends, and whether it ends with a reset."""
        received = bytearray()
        try:
            while data := await self.reader.read(65_536):
                received += data
        except ConnectionResetError:
            return bytes(received), True
        return bytes(received), False

    def leave(self, farewell: Farewell) -> None:
        """Hangs up."""
        if farewell == "rst":
            self.reset()
        else:
            self.close()

    def close(self) -> None:
        """FIN, unless unread data makes the kernel send a reset."""
        self.writer.close()

    def reset(self) -> None:
        """RST, whatever is in flight."""
        raw = self.writer.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


async def ask_once(port: int, data: bytes) -> RawAnswer:
    """One request on a connection of its own."""
    async with await RawClient.connect(port) as client:
        return await client.ask(data)

"""A client's side of ASGI for tests of single parts: what receive() gives, when the test says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from proxy.edge.client_connection import CONNECTION_EXTENSION

if TYPE_CHECKING:
    from starlette.types import Message

    from proxy.edge.client_connection import ConnectionRefusal


class ClientMessages:
    """`receive` is what an application is given. Once the client left it says so again and again.

    `listeners` is how many wait in receive() now.
    """

    def __init__(self) -> None:
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._left = False
        self.listeners = 0

    @property
    def was_told(self) -> bool:
        """Whether the application has heard that the client left."""
        return self._left

    def body(self, data: bytes = b"", *, more: bool = False) -> None:
        self._messages.put_nowait({"type": "http.request", "body": data, "more_body": more})

    def leave(self) -> None:
        self._messages.put_nowait({"type": "http.disconnect"})

    async def receive(self) -> Message:
        if self._left:
            return {"type": "http.disconnect"}
        self.listeners += 1
        try:
            message = await self._messages.get()
        finally:
            self.listeners -= 1
        self._left = message["type"] == "http.disconnect"
        return message


class SentMessages(list["Message"]):
    """`send` for an application that writes down what it is sent."""

    async def send(self, message: Message) -> None:
        self.append(message)

    @property
    def status(self) -> int:
        status: int = self[0]["status"]
        return status

    @property
    def headers(self) -> dict[bytes, bytes]:
        """Names that were sent twice fail."""
        headers = dict(self[0]["headers"])
        assert len(headers) == len(self[0]["headers"])
        return headers

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self[1:])

    @property
    def is_complete(self) -> bool:
        return bool(self) and not self[-1].get("more_body", False) and len(self) > 1


class ClientLine:
    """A client and the connection to it, which the application may end.

    `ended` says how it did. `refusal` is what the server itself has answered, if it has.
    `closes` False: a close() stays without effect, as when the client does not read what is
    buffered. `ends_before_body`: it is not kept, and more of the request's body is to come.
    """

    def __init__(self, *, closes: bool = True) -> None:
        self.ended: list[str] = []
        self.refusal: ConnectionRefusal | None = None
        self.client = ClientMessages()
        self.sent = SentMessages()
        self.has_room = True
        self.ends_before_body = False
        self._closes = closes

    def scope(self, **values: object) -> dict[str, Any]:
        extensions = {CONNECTION_EXTENSION: self}
        return {"http_version": "1.1", "headers": [], "extensions": extensions, **values}

    def close(self) -> None:
        self.ended.append("close")
        if self._closes:
            self.client.leave()

    def abort(self) -> None:
        self.ended.append("abort")
        self.client.leave()

    def write_body(self, body: bytes, more_body: bool) -> bool:
        self.sent.append({"type": "http.response.body", "body": body, "more_body": more_body})
        return self.has_room

    async def room(self) -> None:
        while not self.has_room:
            await asyncio.sleep(0.01)

    def end_body_by_closing(self) -> None:
        self.ended.append("will end by closing")

"""Request bodies for an engine with the tiny model, and the events of its streams."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.support.engine_process import MODEL

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]

MESSAGES = [{"role": "user", "content": "hello there"}]


def completion(max_tokens: int = 4, **more: object) -> Json:
    """For /v1/completions: exactly `max_tokens` tokens, whatever they are."""
    body = {"prompt": "hello there", "max_tokens": max_tokens, "ignore_eos": True}
    return {"model": MODEL, **body, **more}


def chat(max_tokens: int = 4, **more: object) -> Json:
    """For /v1/chat/completions: exactly `max_tokens` tokens, whatever they are."""
    body = {"messages": MESSAGES, "max_tokens": max_tokens, "ignore_eos": True}
    return {"model": MODEL, **body, **more}


def event_data(stream: str) -> list[str]:
    """The data of each event; fails on what a client of server-sent events would stumble over."""
    assert stream.endswith("\n\n")
    events = stream[:-2].split("\n\n")
    return [_data(event) for event in events]


def json_events(stream: str) -> list[Json]:
    """The events before [DONE], which must be the last one."""
    *events, last = event_data(stream)
    assert last == "[DONE]"
    return [json.loads(event) for event in events]


def named_events(stream: str) -> list[tuple[str, Json]]:
    """Name and data of each event of a stream that names them."""
    pairs = [event.split("\n") for event in stream.removesuffix("\n\n").split("\n\n")]
    return [
        (name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
        for name, data in pairs
    ]


def _data(event: str) -> str:
    lines = event.split("\n")
    assert len(lines) == 1, f"one data line each, not {event!r}"
    assert lines[0].startswith("data: ")
    return lines[0].removeprefix("data: ")


class LooseRequest:
    """A request that was sent on a connection of its own and is not waited for.

    For requests that run, wait or are given up while a test looks elsewhere.
    """

    def __init__(
        self, url: str, path: str, body: Mapping[str, object], *, headers: str = ""
    ) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._socket = socket.create_connection((parts.hostname, parts.port or 80), timeout=30.0)
        payload = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(payload)}\r\n{headers}\r\n"
        )
        self._socket.sendall(head.encode() + payload)

    def read_until(self, mark: bytes) -> bytes:
        """What has come, up to where `mark` is in it."""
        received = b""
        while mark not in received:
            chunk = self._socket.recv(65_536)
            assert chunk, f"closed before {mark!r}: {received!r}"
            received += chunk
        return received

    def read_to_end(self) -> bytes:
        """What comes until the other side closes; a request that asked for that."""
        received = b""
        while chunk := self._socket.recv(65_536):
            received += chunk
        return received

    def close(self) -> None:
        """Leaves, whatever is still to come."""
        self._socket.close()

"""Reads the body of a request that asked to upgrade, as Java's client asks for `h2c` with a POST.

llhttp, as httptools drives it, takes a request to upgrade for the end of HTTP: it skips the body
and stops. A server that does not follow the upgrade answers the request as if it had not asked
(RFC 9110, section 7.8), and for that it needs the body. So the rest goes through a second parser,
which is told the framing of the first one's head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import httptools

if TYPE_CHECKING:
    from collections.abc import Iterable

_FRAMING = (b"content-length", b"transfer-encoding")


class BodyReceiver(Protocol):
    """Hears of a body, as httptools tells its protocols."""

    def on_body(self, body: bytes) -> None: ...

    def on_message_complete(self) -> None: ...


class _BodyOnly:
    """The parser looks its callbacks up once; those that are not here it does not make. What comes
    behind the body is no part of it, whatever it looks like: the connection ends with this one."""

    def __init__(self, receiver: BodyReceiver) -> None:
        self._receiver: BodyReceiver | None = receiver

    def on_body(self, body: bytes) -> None:
        if self._receiver is not None:
            self._receiver.on_body(body)

    def on_message_complete(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.on_message_complete()


def announces_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the head, its names in lower case, says that a body follows."""
    return any(name in _FRAMING and value.strip() != b"0" for name, value in headers)


def body_parser(
    headers: Iterable[tuple[bytes, bytes]], receiver: BodyReceiver
) -> httptools.HttpRequestParser:
    """A parser that stands where the body begins."""
    parser = httptools.HttpRequestParser(_BodyOnly(receiver))
    framing = b"".join(b"%b: %b\r\n" % (name, value) for name, value in headers if name in _FRAMING)
    parser.feed_data(b"POST / HTTP/1.1\r\nhost: x\r\n%b\r\n" % framing)
    return parser

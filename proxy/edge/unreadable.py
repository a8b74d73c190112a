"""What a client is told whose request cannot be read: there is no request yet to answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.edge.request_headers import new_request_id
from proxy.openai_api.errors import error_body

if TYPE_CHECKING:
    from collections.abc import Iterable, Sized

MAX_HEAD_BYTES: Final = 65_536
MAX_FIELDS: Final = 256
"""Of a head. A field of three bytes takes two hundred once it is read; vLLM's parsers and the other
proxies take a hundred or so."""
HEAD_TOO_LARGE: Final = f"The request line and headers are larger than {MAX_HEAD_BYTES} bytes."
_TOO_MANY_FIELDS: Final = f"The request has more than {MAX_FIELDS} header fields."

_PHRASES = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
}


class UnreadableHeadError(Exception):
    """Raised inside the parser, which then stops. The message is for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def check_head_size(url: bytes, fields: Iterable[tuple[bytes, bytes]]) -> int:
    """Bytes that the head took on the wire, but for the words of its first line and blanks. Raises
    UnreadableHeadError."""
    size = len(url) + sum(len(name) + len(value) + len(": \r\n") for name, value in fields)
    if size > MAX_HEAD_BYTES:
        raise UnreadableHeadError(431, HEAD_TOO_LARGE)
    return size


def check_coding(value: bytes) -> None:
    """A Transfer-Encoding. Raises UnreadableHeadError: the gateway would refuse it too, but where
    its body ends, others may see differently."""
    if value.lower() != b"chunked":
        raise UnreadableHeadError(400, "Transfer-Encoding must be 'chunked', or not be there.")


def too_large(head_bytes: int, fields: Sized) -> str | None:
    """What is too large about a head that is still coming, in words for the client."""
    if len(fields) > MAX_FIELDS:
        return _TOO_MANY_FIELDS
    return HEAD_TOO_LARGE if head_bytes > MAX_HEAD_BYTES else None


def check_head(version: str, hosts: int, fields: Sized) -> None:
    """`hosts` is how many Host headers there are. Raises UnreadableHeadError."""
    if len(fields) > MAX_FIELDS:
        raise UnreadableHeadError(431, _TOO_MANY_FIELDS)
    if version not in ("1.1", "1.0"):
        raise UnreadableHeadError(400, f"HTTP/{version} is not spoken here.")
    if hosts != 1 and (hosts or version == "1.1"):
        raise UnreadableHeadError(400, f"The request has {hosts} Host headers, not one.")


def answer_to_unreadable(status: int, code: str, message: str) -> bytes:
    """The whole answer, after which the connection is to be closed."""
    body = error_body(message, "invalid_request_error", code)
    return (
        b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        b"x-sluice-reason: %s\r\nx-request-id: %s\r\nconnection: close\r\n\r\n%s"
        % (status, _PHRASES[status], len(body), code.encode(), new_request_id(), body)
    )

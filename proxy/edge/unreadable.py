"""What a client is told whose request cannot be read: there is no request yet to answer."""

from __future__ import annotations

from proxy.edge.request_headers import new_request_id
from proxy.openai_api.errors import error_body

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


def answer_to_unreadable(status: int, code: str, message: str) -> bytes:
    """The whole answer, after which the connection is to be closed."""
    body = error_body(message, "invalid_request_error", code)
    return (
        b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        b"x-sluice-reason: %s\r\nx-request-id: %s\r\nconnection: close\r\n\r\n%s"
        % (status, _PHRASES[status], len(body), code.encode(), new_request_id(), body)
    )

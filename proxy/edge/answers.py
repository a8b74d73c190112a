"""The answers that Sluice makes itself: one value, one way to send it.

Every one of them is an OpenAI error: JSON with message, type, param and code, an exact
Content-Length, `x-request-id`, and `x-sluice-reason` with the code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from proxy.edge.entrance import WrittenAnswer
from proxy.edge.response_cycle import BODY_FOLLOWS, write_head
from proxy.openai_api.errors import error_body

if TYPE_CHECKING:
    from starlette.types import Receive, Send

    from proxy.openai_api.errors import ErrorType

RawHeaders = list[tuple[bytes, bytes]]

CLOSE = (b"connection", b"close")

# How much of an upload that was refused half-way is read on: closing at once with
# unread bytes makes the kernel send a reset, which can destroy the answer before it is read.
_LINGER_BYTES = 1 << 20


class OwnAnswer(NamedTuple):
    """An error answer. `close` ends the client's connection after it."""

    status: int
    type: ErrorType
    code: str
    message: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    close: bool = False


class WholeAnswer(NamedTuple):
    """Head and body. Among the headers is an exact Content-Length."""

    status: int
    headers: RawHeaders
    body: bytes

    def written(self) -> WrittenAnswer:
        """For a connection that is kept."""
        return WrittenAnswer(write_head(self.status, self.headers), self.body)


def server_timing(time_in_queue_s: float) -> tuple[bytes, bytes]:
    """The Server-Timing field that every gated answer has; milliseconds, as its standard says."""
    return b"server-timing", b"queue;dur=%.1f" % (time_in_queue_s * 1000)


class Refusal(Exception):
    """Carries an OwnAnswer up to where it is sent."""

    def __init__(self, answer: OwnAnswer) -> None:
        super().__init__(answer.code)
        self.answer = answer


def whole_answer(answer: OwnAnswer, extra_headers: RawHeaders) -> WholeAnswer:
    """All that is sent."""
    body = error_body(answer.message, answer.type, answer.code)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-sluice-reason", answer.code.encode("ascii")),
        *answer.headers,
        *extra_headers,
    ]
    return WholeAnswer(answer.status, headers, body)


async def send_answer(send: Send, answer: OwnAnswer, extra_headers: RawHeaders) -> None:
    """Sends head and body, complete."""
    await send_whole(send, whole_answer(answer, extra_headers))


async def send_whole(send: Send, whole: WholeAnswer) -> None:
    """The same of an answer that is no error."""
    await send(_start(whole))
    await send({"type": "http.response.body", "body": whole.body, "more_body": False})


async def send_answer_and_linger(
    send: Send, receive: Receive, answer: OwnAnswer, extra_headers: RawHeaders
) -> None:
    """Sends the whole answer, then reads on a little before the connection is closed.

    The caller bounds the time. A client that never stops uploading is cut off after 1 MiB more.
    """
    whole = whole_answer(answer, extra_headers)
    await send(_start(whole))
    await send({"type": "http.response.body", "body": whole.body, "more_body": True})
    drained = 0
    while drained < _LINGER_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        drained += len(message.get("body", b""))
        if not message.get("more_body", False):
            break
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _start(whole: WholeAnswer) -> dict[str, object]:
    return {
        "type": "http.response.start",
        "status": whole.status,
        "headers": whole.headers,
        BODY_FOLLOWS: True,
    }

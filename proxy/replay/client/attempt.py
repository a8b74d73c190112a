"""One HTTP try: sent, answered or not, written down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy.replay.client.answer import StreamedAnswer, WholeAnswer
from proxy.replay.outcome import TryRecord
from proxy.upstream.errors import UpstreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.replay.client.answer import Answer
    from proxy.upstream.port import RawHeaders, Upstream, UpstreamRequest, UpstreamResponse

_MOST_OF_AN_ERROR = 64 * 1024
_LONGEST_CODE = 64


class _Error(msgspec.Struct):
    code: str | int | None = None


class _ErrorBody(msgspec.Struct):
    error: _Error


class Attempt:
    """Mutable while it goes on, since it may be broken off at any point. `status` is 0 until there
    is a whole answer, `has_head` once it can no longer be repeated by the rules of the clients."""

    __slots__ = (
        "_clock",
        "_sequences",
        "answer",
        "began_s",
        "code",
        "ended_s",
        "has_head",
        "headers",
        "retry_after_s",
        "status",
    )

    def __init__(self, clock: Callable[[], float], sequences: int = 1) -> None:
        self._clock = clock
        self._sequences = sequences
        self.began_s = clock()
        self.ended_s = self.began_s
        self.status = 0
        self.has_head = False
        self.headers: Mapping[str, str] = {}
        self.answer: Answer | None = None
        self.code: str | None = None
        self.retry_after_s: float | None = None
        """How long its client waits before the next one, if it comes back."""

    async def run(self, upstream: Upstream, request: UpstreamRequest) -> None:
        """Never raises for a failed one; the end is written down when it is cancelled, too."""
        try:
            async with upstream.exchange(request) as response:
                if response.status < 300:
                    await self._read(response)
                else:
                    await self._read_error(response)
        except UpstreamError:
            pass
        finally:
            self.ended_s = self._clock()

    async def _read(self, response: UpstreamResponse) -> None:
        self.has_head = True
        if _is_stream(response.headers):
            self.answer = StreamedAnswer(self._clock, self._sequences)
        else:
            self.answer = WholeAnswer(self._clock)
        await response.pass_to(self.answer.take, _always_room)
        if self.answer.is_whole:
            self.status = response.status

    async def _read_error(self, response: UpstreamResponse) -> None:
        self.headers = {
            name.decode("latin-1").lower(): v.decode("latin-1") for name, v in response.headers
        }
        body = b""
        while len(body) < _MOST_OF_AN_ERROR and (piece := await response.read()):
            body += piece
        self.status = response.status
        self.code = self.headers.get("x-sluice-reason") or _code_in(body)

    @property
    def first_byte_s(self) -> float | None:
        if self.answer is not None:
            return self.answer.first_byte_s
        return self.ended_s if self.status else None

    def record(self) -> TryRecord:
        return TryRecord(
            self.began_s,
            self.status,
            self.first_byte_s,
            self.ended_s,
            self.code,
            self.retry_after_s,
        )


async def _always_room() -> None:
    """A reader that is never full."""


def _is_stream(headers: RawHeaders) -> bool:
    for name, value in headers:
        if len(name) == 12 and name.lower() == b"content-type":
            return value[:17].lower() == b"text/event-stream"
    return False


def _code_in(body: bytes) -> str | None:
    """OpenAI writes a name there, vLLM the status."""
    try:
        code = msgspec.json.decode(body, type=_ErrorBody).error.code
    except msgspec.MsgspecError:
        return None
    return code[:_LONGEST_CODE] if isinstance(code, str) else None

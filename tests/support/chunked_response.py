"""An upstream response for tests of single parts: chunks, and perhaps an error at their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.upstream.port import pass_by_reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.upstream.errors import UpstreamError
    from proxy.upstream.port import RawHeaders, Room, Take


class ChunkedResponse:
    """`knows_its_end`: tells with the last chunk that it was the last one."""

    def __init__(
        self,
        chunks: Sequence[bytes] = (),
        *,
        status: int = 200,
        headers: RawHeaders | None = None,
        error: UpstreamError | None = None,
        knows_its_end: bool = False,
    ) -> None:
        self.status = status
        self.headers: RawHeaders = headers or []
        self.reads = 0
        self._chunks = list(chunks)
        self._error = error
        self._knows_its_end = knows_its_end

    @property
    def is_exhausted(self) -> bool:
        return self._knows_its_end and not self._chunks and self._error is None

    @property
    def is_readable(self) -> bool:
        return bool(self._chunks)

    async def read(self) -> bytes:
        self.reads += 1
        if self._chunks:
            return self._chunks.pop(0)
        if self._error is not None:
            raise self._error
        return b""

    async def pass_to(self, take: Take, room: Room) -> None:
        await pass_by_reading(self, take, room)

"""Many streams of server-sent events at once, and when their events arrive."""

from __future__ import annotations

import asyncio
import time
from array import array
from typing import TYPE_CHECKING, cast

from tests.bench.http_client import chat_request
from tests.bench.processes import NotMeasuredError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Below what the contenders let wait for accept(). vllm-router gives the first event of a stream
# that then falls silent after a second, so fewer at once would take minutes.
_AT_ONCE = 500
_PATIENCE_S = 20.0


class EventStream(asyncio.Protocol):
    """One stream. While it records, it keeps the seconds between one event and the next.

    Counting the ends of events must do for parsing: it costs a microsecond, and what this process
    spends is lost to the fake engine beside it.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.first_event: asyncio.Future[None] = loop.create_future()
        self.gaps_s = array("d")
        self.events = 0
        self.is_recording = False
        self._head = b""
        self._last_at = 0.0
        self._half_an_end = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one by shape only
        self._transport.write(chat_request(stream=True))

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        events = ends_of_events(self._half_an_end, data)
        self._half_an_end = data.endswith(b"\n") and not data.endswith((b"\n\n", b"\r\n"))
        if not self.first_event.done():
            self._wait_for_first(data, events)
        if events and self.is_recording:
            self.events += events
            self.gaps_s.append(now - self._last_at)
            self.gaps_s.extend([0.0] * (events - 1))
        if events:
            self._last_at = now

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.first_event.done():
            self.first_event.set_exception(exc or ConnectionResetError())
        self.is_recording = False

    def close(self) -> None:
        self._transport.abort()

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    def _wait_for_first(self, data: bytes, events: int) -> None:
        self._head += data
        if len(self._head) >= 12 and self._head[9:12] != b"200":
            status = self._head[9:12].decode(errors="replace")
            self.first_event.set_exception(NotMeasuredError(f"a stream was answered {status}"))
        elif events:
            self.first_event.set_result(None)
            self._head = b""


def ends_of_events(half_an_end_before: bool, data: bytes) -> int:
    """How many events end in `data`, given whether what came before ended with a lone newline."""
    across = half_an_end_before and data.startswith(b"\n")
    return data.count(b"\n\n", 1 if across else 0) + across


async def open_streams(port: int, count: int) -> list[EventStream]:
    """Streams that have had their first event. Raises NotMeasuredError when one does not open."""
    loop = asyncio.get_running_loop()
    streams: list[EventStream] = []
    try:
        while len(streams) < count:
            wanted = min(_AT_ONCE, count - len(streams))
            connecting = (
                loop.create_connection(EventStream, "127.0.0.1", port) for _ in range(wanted)
            )
            opened = [stream for _, stream in await asyncio.gather(*connecting)]
            streams += opened
            first_events = asyncio.gather(*(stream.first_event for stream in opened))
            await asyncio.wait_for(first_events, _PATIENCE_S)
    except (OSError, TimeoutError) as error:
        close_streams(streams)
        why = f"{type(error).__name__} {error}".strip()
        raise NotMeasuredError(f"{len(streams)} of {count} streams: {why}") from error
    except NotMeasuredError:
        close_streams(streams)
        raise
    return streams


def close_streams(streams: Sequence[EventStream]) -> None:
    for stream in streams:
        stream.close()
        if stream.first_event.done() and not stream.first_event.cancelled():
            stream.first_event.exception()  # was told of already

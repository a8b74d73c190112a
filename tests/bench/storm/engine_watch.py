"""What the engine says of itself on its metrics page, asked four times a second."""

from __future__ import annotations

import asyncio
import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.bench.processes import NotMeasuredError
from tests.bench.storm.exchange import exchange, get_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_EVERY_S = 0.25
_PATIENCE_S = 5.0
_REQUEST = get_request("/metrics")
_SAMPLE = re.compile(
    rb"^vllm:(num_requests_running|num_requests_waiting|request_success_total)(\{[^}]*\})? (\S+)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """`finished`: requests whose last token was made, whether or not anybody read it."""

    running: int
    waiting: int
    finished: int

    @classmethod
    def of(cls, page: bytes) -> Reading:
        sums: dict[bytes, float] = {}
        for name, labels, value in _SAMPLE.findall(page):
            if b'finished_reason="abort"' not in labels:
                sums[name] = sums.get(name, 0.0) + float(value)
        return cls(
            int(sums[b"num_requests_running"]),
            int(sums[b"num_requests_waiting"]),
            int(sums.get(b"request_success_total", 0)),
        )


async def read_engine(port: int) -> Reading | None:
    """None when the engine does not answer in time."""
    answer = await exchange(port, _REQUEST, _PATIENCE_S)
    return Reading.of(answer.body) if answer.status == 200 else None


async def until_idle(port: int, within_s: float) -> Reading:
    """Twice in a row nothing runs and nothing waits; what the page counts is then complete.

    Raises NotMeasuredError when it does not come to that.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + within_s
    before = None
    while loop.time() < give_up_at:
        reading = await read_engine(port)
        if reading and not reading.running and not reading.waiting and reading == before:
            return reading
        before = reading
        await asyncio.sleep(_EVERY_S)
    raise NotMeasuredError(f"the engine is still at work after {within_s:g} s: {before}")


class EngineWatch:
    """The most that was seen. `readings` is how often the engine answered."""

    def __init__(self) -> None:
        self.running = self.waiting = self.readings = 0

    def note(self, reading: Reading) -> None:
        self.readings += 1
        self.running = max(self.running, reading.running)
        self.waiting = max(self.waiting, reading.waiting)


@contextlib.asynccontextmanager
async def watching(port: int) -> AsyncIterator[EngineWatch]:
    watch = EngineWatch()
    task = asyncio.create_task(_keep_reading(port, watch))
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _keep_reading(port: int, watch: EngineWatch) -> None:
    while True:
        if reading := await read_engine(port):
            watch.note(reading)
        await asyncio.sleep(_EVERY_S)

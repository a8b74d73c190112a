"""Reads metrics pages ten times a second for half an hour: no parser, only what is looked at."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from typing import Self

_SKIPPED = ("#", "process_", "sluice_build_info")
_COUNTERS = ("_total", "_count", "_bucket", "_sum")
# A machine may be busy with something else for seconds.
_WITHIN_S = 20.0
# Of an engine: see read_engine.
LOAD_PATH = "/load"


@dataclass(frozen=True)
class Sample:
    """One page of the gateway. Counters and gauges by name with labels, as on the page."""

    counters: dict[str, float]
    gauges: dict[str, float]
    in_flight: dict[str, float]
    queued: float
    arrivals: float
    ended: float

    def outcomes(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for name, value in self.counters.items():
            if name.startswith("sluice_requests_total"):
                found[label(name, "outcome")] += int(value)
        return found


def label(series: str, name: str) -> str:
    return series.partition(f'{name}="')[2].partition('"')[0]


def read_gateway(page: str, gated: frozenset[str]) -> Sample:
    """`gated`: the routes whose requests are counted as arrivals."""
    counters, gauges = {}, {}
    for line in page.split("\n"):
        if line and not line.startswith(_SKIPPED):
            series, _, value = line.rpartition(" ")
            is_counter = series.partition("{")[0].endswith(_COUNTERS)
            (counters if is_counter else gauges)[series] = float(value)
    ended = [
        value
        for series, value in counters.items()
        if series.startswith("sluice_requests_total") and label(series, "route") in gated
    ]
    return Sample(
        counters,
        gauges,
        in_flight=_by_upstream(gauges, "sluice_in_flight{"),
        queued=gauges["sluice_queue_depth"],
        arrivals=_sum(counters, "sluice_arrivals_total{"),
        ended=sum(ended),
    )


def read_engine(page: str) -> int:
    """Requests in its server. Not from its metrics: of an engine that is stuck those stand still,
    and would show for seconds what was so for a moment."""
    return int(json.loads(page)["server_load"])


def _sum(series: dict[str, float], beginning: str) -> float:
    return sum(value for name, value in series.items() if name.startswith(beginning))


def _by_upstream(gauges: dict[str, float], beginning: str) -> dict[str, float]:
    return {
        label(name, "upstream"): value
        for name, value in gauges.items()
        if name.startswith(beginning)
    }


class PageReader:
    """Asks for one page again and again, on one connection while that lasts."""

    def __init__(self, port: int, path: str = "/metrics") -> None:
        self._port = port
        self._asks = f"GET {path} HTTP/1.1\r\nHost: soak\r\n\r\n".encode()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def page(self) -> str:
        """Raises OSError or TimeoutError when there is none."""
        try:
            async with asyncio.timeout(_WITHIN_S):
                return await self._ask()
        except (OSError, TimeoutError, EOFError) as error:
            self.close()
            raise OSError(f"no page on port {self._port}") from error

    async def _ask(self) -> str:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        reader, writer = self._streams
        writer.write(self._asks)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise OSError("not 200")
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        return (await reader.readexactly(length)).decode()

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

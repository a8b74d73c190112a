"""Runs wrk on the load's core and reads what it says."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.processes import NotMeasuredError, clean_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.bench.figure import Bench

CHAT = Path(__file__).with_name("chat.lua")
BODY = Path(__file__).with_name("body.lua")

_RATE = re.compile(r"Requests/sec:\s+([\d.]+)")
_TOTAL = re.compile(r"(\d+) requests in")
_NOT_OK = re.compile(r"Non-2xx or 3xx responses: (\d+)")
_BROKEN = re.compile(r"Socket errors: (.*)")


@dataclass(frozen=True)
class WrkReport:
    """`requests` were answered, `refused` of them with neither 2xx nor 3xx."""

    requests_per_s: float
    requests: int
    refused: int
    broken: str

    @classmethod
    def read(cls, text: str) -> WrkReport:
        """Raises NotMeasuredError when this is no report of wrk."""
        rate, total = _RATE.search(text), _TOTAL.search(text)
        if rate is None or total is None:
            raise NotMeasuredError(f"wrk said: {text.strip()[-200:]}")
        refused, broken = _NOT_OK.search(text), _BROKEN.search(text)
        return cls(
            requests_per_s=float(rate[1]),
            requests=int(total[1]),
            refused=int(refused[1]) if refused else 0,
            broken=broken[1] if broken else "",
        )

    def without_errors(self) -> WrkReport:
        """Itself. Raises NotMeasuredError rather than let errors pass for speed."""
        if not self.requests:
            raise NotMeasuredError(f"no answer within the window {self.broken}".strip())
        if self.refused or self.broken:
            raise NotMeasuredError(
                f"{self.refused} of {self.requests} requests refused {self.broken}".strip()
            )
        return self


async def run_wrk(
    bench: Bench,
    port: int,
    seconds: float,
    script: Path = CHAT,
    connections: int = 32,
    environment: Mapping[str, str] | None = None,
) -> WrkReport:
    """Whole seconds only, at least one: wrk knows no others."""
    process = await asyncio.create_subprocess_exec(
        *("taskset", "-c", str(bench.cores.load), bench.peers.wrk),
        *("-t1", f"-c{connections}", f"-d{max(round(seconds), 1)}s", "--timeout", "10s"),
        *("-s", str(script), f"http://127.0.0.1:{port}/v1/chat/completions"),
        env=clean_environment(environment or {}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return WrkReport.read(output.decode(errors="replace"))

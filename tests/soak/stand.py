"""The processes of a soak: engines, the gateway, clients; and what can be asked of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.bench.processes import ROOT
from tests.soak.census import BLOCKS
from tests.soak.plan import ENGINES
from tests.support.gateway_process import gateway
from tests.support.restartable_engine import RestartableEngine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.soak.plan import Plan
    from tests.support.gateway_process import GatewayProcess

_MODULE = "tests.soak.watched_gateway"
_CENSUS_BYTES = 1 << 22
_STOPS_WITHIN_S = 75.0


@dataclass
class Inside:
    """The line into the gateway's process."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, what: str) -> dict[str, int]:
        self.writer.write(what.encode() + b"\n")
        counts: dict[str, int] = json.loads(await self.reader.readline())
        return counts

    async def blocks(self) -> int:
        return (await self.ask("blocks"))[BLOCKS]


@dataclass
class Stand:
    engines: list[RestartableEngine]
    gateway: GatewayProcess
    inside: Inside


@contextlib.asynccontextmanager
async def stand(plan: Plan, scratch: Path) -> AsyncIterator[Stand]:
    async with contextlib.AsyncExitStack() as stack:
        engines = []
        for number in range(ENGINES):
            one = RestartableEngine(scratch / f"engine-{number}.log", plan.engine_arguments)
            stack.push_async_callback(one.stop)
            await one.start()
            engines.append(one)
        path = scratch / "inside"
        sluice = await stack.enter_async_context(
            gateway(
                ",".join(one.url for one in engines),
                run_by=(sys.executable, "-m", _MODULE, str(path)),
                directory=ROOT,
                environment={"PYTHONPATH": str(ROOT)},
                **plan.settings,
            )
        )
        reader, writer = await asyncio.open_unix_connection(path, limit=_CENSUS_BYTES)
        stack.callback(writer.close)
        yield Stand(engines, sluice, Inside(reader, writer))


@dataclass
class Clients:
    """Their process. `told` is the last line that they have said."""

    process: asyncio.subprocess.Process
    told: dict[str, object] = field(default_factory=dict)

    async def read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.told = json.loads(line)
            if self.told["is_last"]:
                return

    @property
    def held(self) -> int:
        held = self.told.get("held", 0)
        assert isinstance(held, int)
        return held

    def counts(self, of: str) -> dict[str, int]:
        found = self.told.get(of, {})
        assert isinstance(found, dict)
        return found

    def number(self, of: str) -> int:
        found = self.told.get(of, 0)
        assert isinstance(found, int)
        return found


@contextlib.asynccontextmanager
async def clients(
    port: int, connections: int, plan: Plan, pause_s: tuple[float, float]
) -> AsyncIterator[Clients]:
    """In the block they are at work; when it ends they have finished what they had begun, told the
    last, and gone."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.soak.clients", "--port", str(port)),
        *("--connections", str(connections), "--bad-share", str(plan.bad_share)),
        *("--pause", *(str(one) for one in pause_s), "--seed", str(plan.seed)),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )
    assert process.stdin is not None
    them = Clients(process)
    reading = asyncio.create_task(them.read())
    try:
        yield them
        process.stdin.write(b"stop\n")
        async with asyncio.timeout(_STOPS_WITHIN_S):
            await reading
        process.stdin.close()
        async with asyncio.timeout(_STOPS_WITHIN_S):
            await process.wait()
    finally:
        reading.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()

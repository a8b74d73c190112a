"""Gateways that share a limit, and then their engines, are replaced one after the other under load.

What had been admitted is answered. Whoever waited, or came too late, is told so, or not connected.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.support.gateway_process import GatewayProcess, gateway
from tests.support.raw_client import ask_once, request_bytes
from tests.support.redis_server import RedisServer, running_redis
from tests.support.scripted_upstream import ScriptedUpstream, empty_ok, not_found

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.scripted_exchange import Exchange

GATEWAYS = 2
SEATS = 8
CLIENTS = 30
PROBES = {b"/health": empty_ok, b"/metrics": not_found, b"/v1/models": not_found}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]


async def _generate(exchange: Exchange) -> None:
    await asyncio.sleep(random.uniform(0.1, 0.3))
    exchange.respond(b'{"choices": []}', 200)


@dataclass
class Service:
    """`ends`: how requests ended, by status; `lost` are those that an engine had, and whose clients
    were not told of it."""

    redis: RedisServer
    file: Path
    stack: AsyncExitStack
    engines: list[ScriptedUpstream] = field(default_factory=list)
    left: list[ScriptedUpstream] = field(default_factory=list)
    gateways: list[GatewayProcess] = field(default_factory=list)
    ends: Counter[int | str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    async def new_engine(self) -> ScriptedUpstream:
        engine = ScriptedUpstream(_generate, probes=PROBES, behind_gateway=True)
        self.engines.append(await self.stack.enter_async_context(engine))
        return engine

    def say_which(self) -> None:
        """As an atomic writer does."""
        new = self.file.with_name("new")
        new.write_text("\n".join(one.url for one in self.engines))
        new.rename(self.file)

    async def new_gateway(self) -> None:
        started = await self.stack.enter_async_context(
            gateway(
                "",
                upstreams_file=self.file,
                max_in_flight=SEATS,
                max_queue_depth=CLIENTS,
                redis_url=self.redis.url,
            )
        )
        self.gateways.append(started)

    async def replace_gateway(self) -> None:
        """The balancer sends nobody there any more as soon as it is told to stop."""
        old = self.gateways.pop(0)
        old.terminate()
        await old.process.wait()
        assert old.exit_code == 0
        await self.new_gateway()

    async def replace_engine(self) -> None:
        await self.new_engine()
        old = self.engines.pop(0)
        self.left.append(old)
        self.say_which()
        for one in self.gateways:
            await one.until_metric("sluice_upstream_ready", 0, upstream=old.url)
        await old.until(lambda: old.inflight == 0)
        assert old.aborts == 0
        old.stop_listening()
        old.reset_all()

    async def ask_on(self) -> None:
        while True:
            number = f"{next(self.numbers)}"
            data = request_bytes(headers={"Connection": "close", "x-client-id": number})
            try:
                status = (await ask_once(random.choice(self.gateways).port, data)).status
            except (OSError, asyncio.IncompleteReadError):
                self.ends["not connected"] += 1
                if any(one.seen_by(number) for one in [*self.engines, *self.left]):
                    self.lost.append(number)
                await asyncio.sleep(0.02)
                continue
            self.ends[status] += 1


async def _replaced(directory: Path) -> Service:
    async with AsyncExitStack() as stack:
        redis = stack.enter_context(running_redis(directory))
        made = Service(redis, directory / "engines", stack)
        await asyncio.gather(made.new_engine(), made.new_engine())
        made.say_which()
        await asyncio.gather(*(made.new_gateway() for _ in range(GATEWAYS)))
        asking = [asyncio.create_task(made.ask_on()) for _ in range(CLIENTS)]
        async with asyncio.timeout(10):
            while sum(one.inflight for one in made.engines) < 2 * SEATS:
                await asyncio.sleep(0.02)
        for _ in range(GATEWAYS):
            await made.replace_gateway()
        for _ in range(2):
            await made.replace_engine()
        for task in asking:
            task.cancel()
        for ended in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(ended, asyncio.CancelledError), ended
        return made


def test_nothing_that_was_admitted_is_lost_while_gateways_and_engines_are_replaced(
    tmp_path: Path,
) -> None:
    made = asyncio.run(_replaced(tmp_path))
    assert made.lost == []
    assert set(made.ends) <= {200, 503, "not connected"}, made.ends
    assert made.ends[200] > 100
    assert made.ends[503] + made.ends["not connected"] < made.ends[200]
    for engine in [*made.engines, *made.left]:
        assert engine.peak <= SEATS
    print(made.ends)  # noqa: T201

"""What is left of the admitted work while ten times the capacity is shed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from typing import TYPE_CHECKING

from tests.bench.contenders import HAPROXY, SLUICE, SLUICE_OTHER, VLLM_ROUTER, Limits
from tests.bench.fake_upstream import EngineOptions
from tests.bench.figure import Column, Figure
from tests.bench.http_client import Client, chat_request
from tests.bench.machine import cpu_seconds
from tests.bench.processes import NotMeasuredError

if TYPE_CHECKING:
    from tests.bench.contenders import Contender
    from tests.bench.figure import Bench

_ANSWER_AFTER_S = 0.1
_OVERLOAD = 10
_TICK_S = 0.002
# Enough for all the seats, all the places and those that are being refused.
_OVERLOAD_CONNECTIONS = 512
_SETTLE_S = 0.5
_REQUEST = chat_request()


async def _measure(bench: Bench, contender: Contender) -> dict[str, float]:
    limits = Limits()
    engine = EngineOptions(answer_after_s=_ANSWER_AFTER_S)
    with bench.gateway(contender, limits, engine) as gateway:
        load = _Load(gateway.port)
        try:
            load.add_closed_loop(limits.in_flight)
            alone = await load.good_per_s(bench.seconds)
            await load.add_open_loop(_OVERLOAD * alone)
            before, began = cpu_seconds(gateway.group), time.perf_counter()
            overloaded = await load.good_per_s(bench.seconds)
            used_s, took_s = cpu_seconds(gateway.group) - before, time.perf_counter() - began
            offered, refused = load.offered_per_s, load.refused_per_s
        finally:
            await load.stop()
    return {
        "good_alone_per_s": alone,
        "offered_per_s": offered,
        "refused_per_s": refused,
        "overloaded_cpu_share": used_s / took_s,
        "goodput_ratio": overloaded / alone,
    }


class _Load:
    """Clients in a closed loop, and others who come at their own pace; all are counted alike."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._statuses: Counter[int] = Counter()
        self._sent = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: deque[Client] = deque()
        self.offered_per_s = self.refused_per_s = 0.0

    def add_closed_loop(self, clients: int) -> None:
        for _ in range(clients):
            self._spawn_closed()

    async def add_open_loop(self, per_s: float) -> None:
        for _ in range(_OVERLOAD_CONNECTIONS):
            self._idle.append(await Client.connect(self._port))
        task = asyncio.create_task(self._come_at(per_s))
        self._tasks.add(task)

    async def good_per_s(self, seconds: float) -> float:
        """Answers of 200 a second. Raises NotMeasuredError when there is none."""
        await asyncio.sleep(_SETTLE_S)
        loop = asyncio.get_running_loop()
        self._statuses.clear()
        self._sent, began = 0, loop.time()
        await asyncio.sleep(seconds)
        took_s = loop.time() - began
        good = self._statuses[200]
        self.offered_per_s = self._sent / took_s
        self.refused_per_s = (self._statuses.total() - good) / took_s
        if not good:
            raise NotMeasuredError(f"no good answer; statuses {dict(self._statuses)}")
        return good / took_s

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn_closed(self) -> None:
        self._tasks.add(asyncio.create_task(self._ask_again_and_again()))

    async def _ask_again_and_again(self) -> None:
        client = await Client.connect(self._port)
        while True:
            good = self._statuses[200]
            client = await self._ask(client)
            if self._statuses[200] == good:
                # One that asked again at once would be an overload of its own.
                await asyncio.sleep(_ANSWER_AFTER_S)

    async def _come_at(self, per_s: float) -> None:
        loop = asyncio.get_running_loop()
        due, owed = loop.time(), 0.0
        while True:
            due += _TICK_S
            await asyncio.sleep(max(due - loop.time(), 0))
            owed += per_s * _TICK_S
            while owed >= 1:
                owed -= 1
                if self._idle:
                    task = asyncio.create_task(self._ask_once(self._idle.popleft()))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)

    async def _ask_once(self, client: Client) -> None:
        self._idle.append(await self._ask(client))

    async def _ask(self, client: Client) -> Client:
        """The client to go on with: a new one when this one's connection was closed."""
        self._sent += 1
        try:
            self._statuses[await client.ask(_REQUEST)] += 1
        except OSError:
            self._statuses[0] += 1
        if client.is_open:
            return client
        return await Client.connect(self._port)


FIGURE = Figure(
    name="goodput",
    title="Goodput while ten times the capacity comes on top",
    method=(
        "The engine takes 100 ms for an answer, and 64 seats make a capacity of about 640/s. "
        "First 64 clients in a closed loop, who fill the seats exactly; then the same, and on top "
        "of them ten times as many requests a second from clients who do not wait for anybody. "
        "Counted are all answers of 200. The first clients alone leave a seat idle between two "
        "requests, which the queue fills later: a share can be above 1."
    ),
    columns=(
        Column("good_alone_per_s", "good/s without", with_ratio=False),
        Column("offered_per_s", "offered/s with", with_ratio=False),
        Column("refused_per_s", "refused/s with", with_ratio=False),
        Column("overloaded_cpu_share", "share of its core with", digits=2, with_ratio=False),
        Column("goodput_ratio", "goodput with / without", digits=3, with_ratio=False),
    ),
    contenders=(HAPROXY, VLLM_ROUTER, SLUICE, SLUICE_OTHER),
    measure=_measure,
)

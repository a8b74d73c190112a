"""Two worker processes behind one port, one engine, a real Redis (SLUICE_WORKERS=2)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import expect

from tests.support.browser import visit
from tests.support.gateway_process import GatewayProcess, eventually, gateway
from tests.support.process_figures import children
from tests.support.raw_client import RawClient, ask_once, request_bytes
from tests.support.redis_server import RedisServer, redis, running_redis
from tests.support.scripted_upstream import (
    Hold,
    ScriptedUpstream,
    empty_ok,
    not_found,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.metrics_page import Samples
    from tests.support.raw_client import RawAnswer
    from tests.support.scripted_exchange import Exchange

__all__ = ["redis"]

SEATS = 12
CLIENTS = 40
PROBES = {b"/health": empty_ok, b"/metrics": not_found, b"/v1/models": not_found}
ASK = request_bytes(headers={"Connection": "close"})
# What takes no seat need not wait until the store gives some out.
OPEN = 24
TOKEN = "the-token-of-an-operator"
OPEN_REQUEST = request_bytes("/tokenize")
DRAINING = re.compile(r"draining: (\d+) requests run")

pytestmark = pytest.mark.alone("processes are killed, and seconds are counted")


@contextlib.asynccontextmanager
async def two_workers(
    url: str, redis: RedisServer, *arguments: str, **settings: object
) -> AsyncIterator[GatewayProcess]:
    """Each test has a cluster of its own in the same Redis."""
    chosen = {
        "workers": 2,
        "redis_url": redis.url,
        "cluster": f"test-{os.urandom(4).hex()}",
        "max_in_flight": SEATS,
        "max_queue_depth": 2 * CLIENTS,
        "queue_timeout": 30,
        **settings,
    }
    workers: list[int] = []
    async with gateway(url, *arguments, **chosen) as sluice:
        workers += children(sluice.pid)
        assert len(workers) == 2
        yield sluice
        workers += children(sluice.pid)
    assert not any(map(is_alive, workers)), "a worker has outlived its gateway"


@dataclass
class Load:
    """Clients that ask again and again, each time on a connection of its own."""

    port: int
    statuses: Counter[int] = field(default_factory=Counter)
    unanswered: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(self) -> None:
        self.tasks = {asyncio.create_task(self._ask_on()) for _ in range(CLIENTS)}

    async def end(self) -> None:
        """When each has its answer."""
        tasks, self.tasks = self.tasks, set()
        await asyncio.gather(*tasks)

    async def _ask_on(self) -> None:
        while asyncio.current_task() in self.tasks:
            try:
                self.statuses[(await ask_once(self.port, ASK)).status] += 1
            except (OSError, asyncio.IncompleteReadError):
                self.unanswered += 1
                await asyncio.sleep(0.05)


async def generate(exchange: Exchange) -> None:
    await asyncio.sleep(0.05)
    exchange.respond(b'{"choices": []}', 200)


async def workers_told(sluice: GatewayProcess) -> list[dict[str, Any]]:
    """As /status.json has them."""
    page = await ask_once(sluice.admin_port, request_bytes("/status.json", b"", "GET"))
    told: list[dict[str, Any]] = json.loads(page.body)["workers"]
    return told


def is_alive(pid: int) -> bool:
    """Not where its end has only not been taken note of by whoever has inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def fallen(before: Samples, after: Samples) -> list[str]:
    """Counters, and counts of histograms, that are lower than they were."""
    lasting = ("_total", "_count", "_bucket", "_sum")
    return [
        name
        for (name, labels), value in before.items()
        if name.endswith(lasting) and after.get((name, labels), 0.0) < value
    ]


@pytest.mark.timeout(60)
def test_they_hold_one_limit_and_one_scrape_tells_of_all_even_of_one_that_was_killed(
    redis: RedisServer,
) -> None:
    async def scenario() -> None:
        async with (
            ScriptedUpstream(generate, probes=PROBES) as upstream,
            two_workers(upstream.url, redis) as sluice,
        ):
            first, second = children(sluice.pid)
            load = Load(sluice.port)
            load.begin()
            await eventually(lambda: upstream.inflight == SEATS, within_s=8)
            told = await workers_told(sluice)
            while not all(one["in_flight"] for one in told):
                await asyncio.sleep(0.05)
                told = await workers_told(sluice)
            assert [one["pid"] for one in told] == [first, second]
            await load.end()
            assert load.unanswered == 0
            assert set(load.statuses) == {200}
            assert +await sluice.outcomes() == {"ok": load.statuses[200]}
            assert await sluice.metric("sluice_workers") == 2
            assert await sluice.metric("sluice_gateways") == 2
            await sluice.until_metric("sluice_concurrency_limit", SEATS)
            await sluice.until_idle()

            load.begin()
            await eventually(lambda: upstream.inflight == SEATS)
            before = await sluice.metrics()
            os.kill(first, signal.SIGKILL)
            await sluice.until_metric("sluice_workers", 1)
            assert fallen(before, await sluice.metrics()) == []
            await sluice.until_metric("sluice_workers", 2)
            successor = next(pid for pid in children(sluice.pid) if pid not in (first, second))
            await eventually(lambda: upstream.inflight == SEATS, within_s=6)
            await sluice.until_metric("sluice_concurrency_limit", SEATS, within_s=6)
            assert fallen(before, await sluice.metrics()) == []
            assert await sluice.metric("sluice_workers_lost_total") == 1
            told = await workers_told(sluice)
            assert [one["pid"] for one in told] == [successor, second]
            assert [(one["state"], one["restarts"]) for one in told] == [
                ("serving", 1),
                ("serving", 0),
            ]
            async with visit(f"{sluice.admin_url}/status") as visited:
                table = visited.page.get_by_role("region", name="Worker processes")
                rows = table.get_by_role("row")
                await expect(rows).to_have_count(1 + 2)
                await expect(rows.nth(1)).to_contain_text(re.compile(rf"1\s*{successor}serving"))
                await expect(rows.nth(1).get_by_role("cell").last).to_have_text("1")
            await load.end()
            assert load.unanswered <= SEATS + CLIENTS, "only what was at the one that was killed"
            assert await sluice.metric("sluice_requests_total", outcome="ok") >= (
                load.statuses[200] - CLIENTS
            ), "what the killed one had not told is a second's at most"
            assert upstream.peak <= SEATS
        assert sluice.exit_code == 0
        assert any(
            "was killed by SIGKILL; starting it again in 0.25 s" in one for one in sluice.log
        )

    asyncio.run(scenario())


@pytest.mark.timeout(60)
def test_a_change_and_a_drain_reach_both_and_one_that_comes_later(redis: RedisServer) -> None:
    async def scenario() -> None:
        async with (
            ScriptedUpstream(probes=PROBES) as upstream,
            two_workers(upstream.url, redis, admin_token=TOKEN) as sluice,
        ):
            first, _ = children(sluice.pid)
            changed = await admin(sluice, "PATCH", "settings", {"max_in_flight": 5})
            assert changed.status == 200, changed.body
            await sluice.until_metric("sluice_concurrency_limit", 5, within_s=8)
            assert (await admin(sluice, "PUT", "drain", {"draining": True})).status == 200
            assert await refusals(sluice) == {"draining"}
            os.kill(first, signal.SIGKILL)
            await sluice.until_metric("sluice_workers_lost_total", 1)
            await sluice.until_metric("sluice_workers", 2)
            assert first not in children(sluice.pid)
            assert await refusals(sluice) == {"draining"}, "the new one drains too"
            assert (await admin(sluice, "PUT", "drain", {"draining": False})).status == 200
            assert await refusals(sluice) == {None}
        assert sluice.exit_code == 0

    asyncio.run(scenario())


@pytest.mark.timeout(60)
def test_one_started_without_a_store_takes_no_connection_while_others_have_seats(
    tmp_path: Path,
) -> None:
    """Half of all requests waited there for nothing. Where nobody has a seat it listens, as a
    gateway that starts without its store does."""

    async def scenario() -> None:
        with running_redis(tmp_path) as store:
            async with (
                ScriptedUpstream(probes=PROBES) as upstream,
                two_workers(upstream.url, store, queue_timeout=1) as sluice,
            ):
                await sluice.until_metric("sluice_concurrency_limit", SEATS, within_s=8)
                first, second = children(sluice.pid)
                store.stop()
                os.kill(first, signal.SIGKILL)
                await eventually(lambda: waits_told(sluice) == 1, within_s=10)
                assert await refusals(sluice) == {None}
                assert [one["state"] for one in await workers_told(sluice)] == [
                    "starting",
                    "serving",
                ]
                os.kill(second, signal.SIGKILL)
                await sluice.until_metric("sluice_workers_lost_total", 2)
                await sluice.until_metric("sluice_workers", 1, within_s=10)
                assert await refusals(sluice) == {"queue_timeout"}
                store.start()
                await sluice.until_metric("sluice_workers", 2, within_s=5)
                await sluice.until_metric("sluice_concurrency_limit", SEATS, within_s=20)
                store.stop()
                told = waits_told(sluice)
                os.kill(children(sluice.pid)[0], signal.SIGKILL)
                await eventually(lambda: waits_told(sluice) > told, within_s=10)
            assert sluice.exit_code == 0, "also while one of them waits"

    asyncio.run(scenario())


def waits_told(sluice: GatewayProcess) -> int:
    return sum("takes no connections yet" in line for line in sluice.log)


async def admin(sluice: GatewayProcess, method: str, path: str, body: object) -> RawAnswer:
    with_token = {"Authorization": f"Bearer {TOKEN}"}
    content = json.dumps(body).encode()
    asked = request_bytes(f"/admin/{path}", content, method, with_token)
    return await ask_once(sluice.admin_port, asked)


async def refusals(sluice: GatewayProcess) -> set[str | None]:
    """Reasons that some tens of connections are given, so that each worker has some of them."""
    answers = await asyncio.gather(*(ask_once(sluice.port, ASK) for _ in range(OPEN)))
    return {answer.header("x-sluice-reason") for answer in answers}


def test_a_stop_drains_both_and_no_request_is_lost(redis: RedisServer) -> None:
    """Also where every process is signalled, as systemd does it: the parent passes on what it is
    sent, and for a worker a second signal is none."""

    async def scenario() -> None:
        hold = Hold()
        async with (
            ScriptedUpstream(hold, probes=PROBES) as upstream,
            two_workers(upstream.url, redis) as sluice,
            contextlib.AsyncExitStack() as stack,
        ):
            running = [
                await stack.enter_async_context(await RawClient.connect(sluice.port))
                for _ in range(OPEN)
            ]
            for client in running:
                client.send(OPEN_REQUEST)
            await eventually(lambda: upstream.inflight == OPEN)
            for pid in (sluice.pid, *children(sluice.pid)):
                os.kill(pid, signal.SIGTERM)
            await sluice.until_metric("sluice_draining", 1)
            ready = await ask_once(sluice.admin_port, request_bytes("/readyz", b"", "GET"))
            assert ready.status == 503
            late = await ask_once(sluice.port, ASK)
            assert (late.status, late.header("x-sluice-reason")) == (503, "draining")
            hold.release()
            assert [(await client.answer()).status for client in running] == [200] * OPEN
            await sluice.process.wait()
        assert sluice.exit_code == 0
        had = [int(found[1]) for found in map(DRAINING.search, sluice.log) if found]
        assert len(had) == 2
        assert sum(had) == OPEN
        assert all(had), "both had work"

    asyncio.run(scenario())


def test_a_second_signal_ends_all_of_them_on_the_spot(redis: RedisServer) -> None:
    async def scenario() -> None:
        async with (
            ScriptedUpstream(Hold(), probes=PROBES) as upstream,
            two_workers(upstream.url, redis) as sluice,
            await RawClient.connect(sluice.port) as client,
        ):
            client.send(OPEN_REQUEST)
            await eventually(lambda: upstream.inflight == 1)
            sluice.terminate()
            await sluice.until_metric("sluice_draining", 1)
            sluice.terminate()
            await sluice.process.wait()
            assert sluice.exit_code == -signal.SIGTERM
            await upstream.until(lambda: upstream.aborts == 1)

    asyncio.run(scenario())


def test_a_taken_port_is_one_line_and_workers_whose_parent_is_killed_drain_and_end(
    redis: RedisServer,
) -> None:
    """Taken also where those who have it share it among themselves."""

    async def scenario() -> None:
        hold = Hold()
        async with (
            ScriptedUpstream(hold, probes=PROBES) as upstream,
            two_workers(upstream.url, redis) as sluice,
            await RawClient.connect(sluice.port) as client,
        ):
            with pytest.raises(AssertionError, match="the gateway did not start") as caught:
                async with two_workers(upstream.url, redis, port=sluice.port):
                    pass
            _, said = str(caught.value).splitlines()
            assert said.startswith(f"Error: cannot listen on 127.0.0.1:{sluice.port} (SLUICE_HOST")
            client.send(OPEN_REQUEST)
            await eventually(lambda: upstream.inflight == 1)
            workers = children(sluice.pid)
            sluice.process.kill()
            await eventually(lambda: sum(map(is_alive, workers)) == 1)  # the other one is idle
            hold.release()
            assert (await client.answer()).status == 200
            await eventually(lambda: not any(map(is_alive, workers)))

    asyncio.run(scenario())

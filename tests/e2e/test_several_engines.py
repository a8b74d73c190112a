"""Three engines behind one gateway, each a process of its own: two of one model, one of another.

Who is killed, stopped and started again here is always one of the two, and at the end of a test
both are up.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import pytest

from tests.support.engine_process import MODEL
from tests.support.gateway_process import GatewayProcess, gateway
from tests.support.raw_client import RawAnswer, ask_once, request_bytes
from tests.support.restartable_engine import RestartableEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Any

    Scenario = Callable[[], Coroutine[Any, Any, None]]

SEATS = 4
OTHER_MODEL = "other"
# More than two engines have seats; and with two more no more than one has seats and places.
CLIENTS = 10
# About 0.16 s at the simulator's pace.
TOKENS = 50
# Seconds at least: it runs when an engine is killed.
LONG_TOKENS = 1000
# Those that ran there, and as many that came to it while it was dying.
MOST_LOST = 2 * SEATS
DONE = b"data: [DONE]"


@dataclass
class Site:
    """The gateway and its engines."""

    runner: asyncio.Runner
    pair: tuple[RestartableEngine, RestartableEngine]
    other: RestartableEngine
    sluice: GatewayProcess = field(init=False)
    _open: AsyncExitStack = field(default_factory=AsyncExitStack)
    _asked: int = 0

    async def open(self) -> None:
        engines = (*self.pair, self.other)
        for engine in engines:
            self._open.push_async_callback(engine.stop)
        await asyncio.gather(*(engine.start() for engine in engines))
        starting = gateway(
            ",".join(engine.url for engine in engines),
            max_num_seqs=SEATS + 1,
            max_in_flight=SEATS,
            affinity="session",
            log_format="json",
        )
        self.sluice = await self._open.enter_async_context(starting)
        for engine in engines:
            await self.until_full_again(engine)

    async def close(self) -> None:
        await self._open.aclose()

    async def get(self, target: str) -> RawAnswer:
        return await ask_once(self.sluice.port, request_bytes(target, b"", "GET"))

    async def ask(
        self,
        target: str = "/v1/completions",
        *,
        model: str = MODEL,
        tokens: int = 1,
        session: str | None = None,
    ) -> Asked:
        self._asked += 1
        headers = {"x-request-id": f"asked-{self._asked}"}
        if session is not None:
            headers["x-session-id"] = session
        body = {"model": model, "prompt": "x", "max_tokens": tokens, "ignore_eos": True}
        if tokens > 1:
            body["stream"] = True
        request = request_bytes(target, body, headers=headers)
        answer = await ask_once(self.sluice.port, request)
        return Asked(headers["x-request-id"], answer)

    async def served_by(self, *asked: Asked) -> list[str]:
        """The engine of each, as the access log has it."""
        wanted = {one.id for one in asked}
        async with asyncio.timeout(5):
            while not wanted <= (engines := self._engines_by_request()).keys():
                await asyncio.sleep(0.01)
        return [engines[one.id] for one in asked]

    def _engines_by_request(self) -> dict[str, str]:
        lines = [json.loads(line) for line in self.sluice.log if '"logger":"access"' in line]
        return {line["request_id"]: line["upstream"] for line in lines}

    async def until_up(self, engine: RestartableEngine, up: int = 1) -> None:
        await self.sluice.until_metric("sluice_upstream_up", up, upstream=engine.url)

    async def until_full_again(self, engine: RestartableEngine, within_s: float = 20.0) -> None:
        """It has all its seats."""
        limit = "sluice_concurrency_limit"
        await self.sluice.until_metric(limit, SEATS, within_s, upstream=engine.url)
        await self.until_up(engine)


@dataclass(frozen=True)
class Asked:
    """One request and what became of it."""

    id: str
    answer: RawAnswer

    @property
    def is_good(self) -> bool:
        return self.answer.status == 200 and self.answer.complete and DONE in self.answer.body

    @property
    def is_broken_stream(self) -> bool:
        return self.answer.status == 200 and not self.answer.complete

    def __repr__(self) -> str:
        return f"<{self.id} {self.answer.status} {self.answer.body[-200:]!r}>"


class Load:
    """Clients that ask one request after the other, until it is left."""

    def __init__(self, site: Site, clients: int = CLIENTS) -> None:
        self._site = site
        self._clients = clients
        self._is_over = False
        self.ended: list[Asked] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._client()) for _ in range(self._clients)]
        await self.until_more(self._clients)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def _client(self) -> None:
        while not self._is_over:
            self.ended.append(await self._site.ask(tokens=TOKENS))

    async def until_more(self, count: int) -> None:
        """So many more have ended."""
        wanted = len(self.ended) + count
        async with asyncio.timeout(10):
            while len(self.ended) < wanted:
                await asyncio.sleep(0.005)

    @property
    def lost(self) -> list[Asked]:
        return [one for one in self.ended if not one.is_good]


@pytest.fixture(scope="module", name="site")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    logs = tmp_path_factory.mktemp("engines")
    with asyncio.Runner() as runner:
        site = Site(
            runner,
            (RestartableEngine(logs / "one.log"), RestartableEngine(logs / "two.log")),
            RestartableEngine(logs / "other.log", ("--served-model-name", OTHER_MODEL)),
        )
        try:
            runner.run(site.open())
            yield site
        finally:
            runner.run(site.close())


def test_the_load_spreads_over_the_engines_of_its_model(site: Site) -> None:
    async def scenario() -> None:
        async with Load(site) as load:
            for engine in site.pair:
                await site.sluice.until_metric("sluice_in_flight", SEATS, upstream=engine.url)
            await load.until_more(2 * CLIENTS)
        assert load.lost == []
        assert await site.sluice.metric("sluice_max_queue_depth") == 3 * SEATS
        served = Counter(await site.served_by(*load.ended))
        one, two = (served[engine.url] for engine in site.pair)
        assert one + two == len(load.ended)
        assert 0.5 < one / two < 2

    site.runner.run(scenario())


def test_requests_go_where_their_model_is_and_its_list_names_all(site: Site) -> None:
    async def scenario() -> None:
        page = await site.get("/v1/models")
        assert [card["id"] for card in json.loads(page.body)["data"]] == [MODEL, OTHER_MODEL]
        assert page.header("x-request-id")
        asked = [
            await site.ask(target, model=OTHER_MODEL)
            for target in ("/v1/completions", "/tokenize", "/v1/completions", "/tokenize")
        ]
        assert [one.answer.status for one in asked] == [200] * 4
        assert set(await site.served_by(*asked)) == {site.other.url}

    site.runner.run(scenario())


@pytest.mark.parametrize("target", ["/v1/completions", "/tokenize"])
def test_a_model_that_nobody_serves_is_the_engines_404(site: Site, target: str) -> None:
    async def scenario() -> None:
        asked = await site.ask(target, model="nobody-serves-this")
        assert asked.answer.status == 404
        assert asked.answer.header("x-sluice-reason") is None
        assert "nobody-serves-this" in str(asked.answer.error["message"])

    site.runner.run(scenario())


def test_a_session_stays_with_its_engine(site: Site) -> None:
    async def scenario() -> None:
        asked = {
            session: [await site.ask(session=session) for _ in range(3)]
            for session in map(str, range(12))
        }
        homes = [set(await site.served_by(*turns)) for turns in asked.values()]
        assert all(len(home) == 1 for home in homes)
        assert set.union(*homes) == {engine.url for engine in site.pair}

    site.runner.run(scenario())


def test_of_a_killed_engine_its_own_requests_are_lost_and_no_others(site: Site) -> None:
    async def scenario() -> None:
        killed, left = site.pair
        long = [asyncio.create_task(site.ask(tokens=LONG_TOKENS)) for _ in site.pair]
        for engine in site.pair:
            await site.sluice.until_metric("sluice_in_flight", 1, upstream=engine.url)
        async with Load(site) as load:
            await killed.kill()
            await load.until_more(4 * CLIENTS)
            await site.until_up(killed, up=0)
            assert (await site.get("/readyz")).status == 200
            detail = request_bytes("/readyz", b"", "GET")
            ready = await ask_once(site.sluice.admin_port, detail)
            engines = json.loads(ready.body)["engines"]
            assert engines.keys() == {killed.url, left.url, site.other.url}
            assert engines[killed.url]["up"] is False
            assert "refused" in engines[killed.url]["reason"]
            taken_out = await site.sluice.metric("sluice_upstream_taken_out", upstream=killed.url)
            assert taken_out == 1
        asked = [*load.ended, *await asyncio.gather(*long)]
        lost = [one for one in asked if not one.is_good]
        assert len(lost) <= MOST_LOST
        assert set(await site.served_by(*lost)) == {killed.url}
        for one in lost:
            if one.is_broken_stream:
                assert b'"code":"upstream_closed"' in one.answer.body
                assert DONE not in one.answer.body
            else:
                assert one.answer.header("x-sluice-reason") == "upstream_closed"
        assert sum(one in lost and one.is_broken_stream for one in asked[-2:]) == 1

        await killed.start()
        async with Load(site) as load:
            await site.until_up(killed)
            limit = await site.sluice.metric("sluice_concurrency_limit", upstream=killed.url)
            assert limit < SEATS  # it begins with few
            await site.sluice.until_metric("sluice_upstream_taken_out", 0, upstream=killed.url)
            await load.until_more(2 * CLIENTS)
        assert load.lost == []
        assert set(await site.served_by(*load.ended)) == {killed.url, left.url}

    site.runner.run(scenario())


def test_when_engines_are_restarted_in_turn_only_what_ran_there_is_lost(site: Site) -> None:
    async def scenario() -> None:
        for engine in site.pair:
            async with Load(site, 2 * SEATS) as load:
                await engine.stop()
                await load.until_more(2 * SEATS)
                await engine.start()
                await site.until_up(engine)
                await load.until_more(2 * SEATS)
            assert len(load.lost) <= MOST_LOST
            assert set(await site.served_by(*load.lost)) <= {engine.url}

    site.runner.run(scenario())
